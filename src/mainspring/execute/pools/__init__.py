"""Where functions run that are not tasks in the event loop: threads, and processes."""
