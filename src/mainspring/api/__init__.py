"""The HTTP API. Empty until the service is built."""
