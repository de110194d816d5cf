"""The suite that every store must pass, in themed groups; `backends.BACKENDS` names the stores."""
