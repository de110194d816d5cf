"""Names and texts as parts of statements. Pure."""


def quoted(name: str) -> str:
    """As an identifier, in DuckDB and in PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
