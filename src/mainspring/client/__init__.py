"""The service as Python calls: the same face as the verbs over a store, spoken over HTTP. Needs the extra `client`."""
