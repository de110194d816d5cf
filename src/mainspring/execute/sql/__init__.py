"""The parts of the job type `sql`: DuckDB in a process of its own, what it may read, and what goes in and out of it."""
