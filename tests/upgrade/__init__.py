"""Versions that run together, stores that earlier versions left behind, and backups: what an operator does to a store."""
