"""Queues."""

from mainspring.api.asking import Ask
from mainspring.api.operations import Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.verbs import documents as d

QUEUES = Room("Queues")


@QUEUES.get("/v1/queues", "list_queues", answer=list[d.QueueDocument])
async def list_queues(ask: Ask) -> Reply:
    """List queues. With how many jobs of each state they hold."""
    return document(await ask.verbs.queues.list())


@QUEUES.get("/v1/queues/{name}", "read_queue", answer=d.QueueDocument)
async def read_queue(ask: Ask) -> Reply:
    """Read a queue."""
    return document(await ask.verbs.queues.read(ask.path("name")))


@QUEUES.post("/v1/queues/{name}/pause", "pause_queue")
async def pause_queue(ask: Ask) -> Reply:
    """Pause a queue. None of its jobs starts; those that run go on."""
    await ask.verbs.queues.pause(ask.path("name"))
    return nothing()


@QUEUES.post("/v1/queues/{name}/resume", "resume_queue")
async def resume_queue(ask: Ask) -> Reply:
    """Resume a queue."""
    await ask.verbs.queues.resume(ask.path("name"))
    return nothing()
