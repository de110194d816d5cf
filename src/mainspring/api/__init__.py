"""The HTTP API: thin handlers between requests and verbs. `app.make_api` puts it together."""
