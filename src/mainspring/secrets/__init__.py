"""Encrypted values that jobs refer to by name. Empty until secrets are built."""
