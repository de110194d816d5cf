"""`mainspring migrate`: bring a store's schema up to date, ahead of the processes that use it."""

from mainspring.app import App
from mainspring.cli.opening import store_path
from mainspring.cli.options import AsJson, StoreUrl
from mainspring.cli.output import Output, text
from mainspring.store.sqlite import database


def migrate(store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Make a store, or bring it up to date.

    Says which steps were applied. Opening a store does the same by itself.
    """
    path = store_path(App(store).store_url)
    database.refuse_network_filesystem(path)
    connection = database.connect(path)
    try:
        applied = database.migrate(connection, path)
    finally:
        connection.close()
    said = [f"applied {name}" for name in applied] or [f"{path} is up to date"]
    Output(as_json).show({"store": str(path), "applied": applied}, lambda: [text(line) for line in said])
