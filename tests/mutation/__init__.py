"""Proof that the tests can fail: each deliberate breakage turns a named test red."""
