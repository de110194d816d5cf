"""Runs jobs: what a worker process is made of. It meets a node only through `link.Link` and never sees a store."""
