"""Measurements of this system beside others that do the same work."""
