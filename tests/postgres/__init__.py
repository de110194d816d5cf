"""The real parts that tests of the PostgreSQL store run against: a server, a proxy in front of it, a pooler."""
