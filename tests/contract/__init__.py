"""The suite that every store must pass, in themed groups; `conftest.BACKENDS` names the stores."""
