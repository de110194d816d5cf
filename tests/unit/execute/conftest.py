"""Makes `execute.jobs` importable for the processes that the tests start, as a user's module would be."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
