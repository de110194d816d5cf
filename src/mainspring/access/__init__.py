"""Who may do what, and how much of it: keys, roles, rates, quotas, and the record of what people did."""
