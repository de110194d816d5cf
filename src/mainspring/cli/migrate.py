"""`mainspring migrate`: bring a store's schema up to date, ahead of the processes that use it."""

from mainspring.app import App
from mainspring.cli.opening import perform
from mainspring.cli.options import AsJson, StoreUrl
from mainspring.cli.output import Output, text
from mainspring.store.opening import migrate_store


def migrate(store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Make a store, or bring it up to date.

    Says which steps were applied. Opening a store does the same by itself.
    """
    settings = App(store).store_settings
    applied = perform(migrate_store(settings))
    said = [f"applied {name}" for name in applied] or [f"{settings.place} is up to date"]
    Output(as_json).show({"store": settings.place, "applied": applied}, lambda: [text(line) for line in said])
