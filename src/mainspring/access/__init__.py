"""Keys, roles, quotas and audit of the HTTP service. Empty until the service is built."""
