"""The command line, run in this process unless the process itself is what is tested."""
