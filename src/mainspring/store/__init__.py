"""Durable state. `contract` says what a store promises, each backend keeps it."""
