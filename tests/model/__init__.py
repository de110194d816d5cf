"""The store against a simple oracle: any sequence of verbs, the same answers and the same state."""
