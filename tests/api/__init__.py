"""The HTTP API: a real server and a real client."""
