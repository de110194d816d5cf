"""The server's clock as a client knows it: set by answers that take their time, never ahead."""

import time

import pytest

from mainspring.store.postgres.clock import DatabaseClock

SECOND = 1_000_000


class Server:
    """Answers with a clock that is ahead of this machine's; question and answer take their time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
        self.ahead, self.there, self.back, self.now = ahead, 100, 100, 1_900_000_000 * SECOND
        monkeypatch.setattr(time, "time_ns", lambda: self.now * 1000)

    async def fetchval(self, _: str) -> int:
        self.now += self.there
        answer = self.now + self.ahead
        self.now += self.back
        return answer

    def error(self, clock: DatabaseClock) -> int:
        """How far the clock is ahead of the server's."""
        return clock.now() - (self.now + self.ahead)


@pytest.mark.parametrize("ahead", [0, 5 * SECOND, -3600 * SECOND])
async def test_it_is_behind_by_no_more_than_an_answer_takes(monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    server, clock = Server(monkeypatch, ahead), DatabaseClock()
    await clock.set_by(server)
    assert server.error(clock) == -100


async def test_slow_answers_do_not_unsettle_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clock = Server(monkeypatch, 7 * SECOND), DatabaseClock()
    await clock.set_by(server)
    server.there, server.back = 20_000, 50_000
    await clock.set_by(server)
    assert server.error(clock) == -100


async def test_a_clock_that_was_set_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clock = Server(monkeypatch, 0), DatabaseClock()
    await clock.set_by(server)
    for ahead in (SECOND, -SECOND):
        server.ahead = ahead
        await clock.set_by(server)
        assert server.error(clock) == -100
