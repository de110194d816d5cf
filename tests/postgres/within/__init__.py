"""Submits inside transactions on PostgreSQL: on connections of callers' own, and on those that the store lends."""
