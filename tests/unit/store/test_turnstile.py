"""The turnstile: who waits for the write lock goes before who has just had it, and nobody waits for ever."""

import os
import threading
from pathlib import Path

from mainspring.store.sqlite.turnstile import Turnstile


def test_one_passes_at_a_time(tmp_path: Path) -> None:
    first, second = Turnstile(tmp_path), Turnstile(tmp_path)
    order: list[str] = []
    started = threading.Event()

    def other() -> None:
        started.set()
        with second.turn():
            order.append("second")

    with first.turn():
        thread = threading.Thread(target=other)
        thread.start()
        assert started.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_process_that_stands_still_in_it_stops_nobody(tmp_path: Path) -> None:
    frozen, other = Turnstile(tmp_path), Turnstile(tmp_path)
    with frozen.turn():
        for _ in range(2):
            with other.turn():
                pass  # after some patience, without the turnstile
    with other.turn(), frozen.turn():
        pass


def test_it_leaves_no_lock_behind(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path)
    with turnstile.turn():
        pass
    turnstile.close()
    again = Turnstile(tmp_path)
    assert again._pass()
    again.close()
    assert os.listdir(tmp_path) == ["turn"]
