"""`mainspring queues`."""

from cli.harness import Cli
from mainspring import App
from mainspring.core.job import Limit
from mainspring.store.contract import QueueRecord

EVERYWHERE = True


def test_list_counts_and_limits(cli: Cli) -> None:
    async def limit(app: App) -> None:
        await app.store.put_queue(QueueRecord("default", "mail", False, Limit(5, 100 / 60, 100)))

    cli.within(limit)
    cli("submit", "send", "--args", '{"to": "a"}')
    queues = {queue["name"]: queue for queue in cli("queues", "list", "--json").document["queues"]}
    assert queues["mail"]["jobs"]["pending"] == 1
    assert queues["mail"]["limit"]["concurrency"] == 5
    assert queues["default"]["paused"] is False
    assert "5 at once, 100 per 1 m" in cli("queues", "list").out


def test_pause_and_resume_keep_the_limit(cli: Cli) -> None:
    async def limit(app: App) -> None:
        await app.store.put_queue(QueueRecord("default", "mail", False, Limit(5)))

    cli.within(limit)
    assert cli("queues", "pause", "mail").out == "mail is paused\n"
    (mail,) = [q for q in cli("queues", "list", "--json").document["queues"] if q["name"] == "mail"]
    assert (mail["paused"], mail["limit"]["concurrency"]) == (True, 5)
    assert cli("queues", "resume", "mail", "--json").document["paused"] is False


def test_a_mistyped_queue_is_refused(cli: Cli) -> None:
    assert "known are default, mail" in cli.fails(1, "queues", "pause", "mial")
    cli.fails(2, "queues", "pause", "a\nb")
    cli("submit", "send", "--args", '{"to": "a"}', "--queue", "special")
    assert cli("queues", "pause", "special").code == 0
