"""Values that nobody may read in the store: the keys that seal them, the envelope, tenants' secrets, sealed jobs."""
