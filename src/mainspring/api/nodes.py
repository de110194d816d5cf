"""Workers and nodes, as people see them. What workers themselves say is in `workers`."""

from mainspring.api.asking import Ask
from mainspring.api.operations import Room
from mainspring.api.replies import Reply, document, nothing
from mainspring.verbs import documents as d

WORKER_LIST = Room("Workers")
NODES = Room("Nodes")


@WORKER_LIST.get("/v1/workers", "list_workers", answer=list[d.WorkerDocument])
async def list_workers(ask: Ask) -> Reply:
    """List workers."""
    return document(await ask.verbs.workers.list())


@NODES.get("/v1/nodes", "list_nodes", answer=list[d.NodeDocument])
async def list_nodes(ask: Ask) -> Reply:
    """List nodes."""
    return document(await ask.verbs.nodes.list())


@NODES.post("/v1/nodes/{name}/drain", "drain_node", answer=list[d.NodeDocument], problems=(409,))
async def drain_node(ask: Ask) -> Reply:
    """Ask a node to leave. By its name, or by the start of its id: it takes nothing new, finishes and stops."""
    return document(await ask.verbs.nodes.drain([ask.path("name")]))


@NODES.delete("/v1/nodes/{name}", "remove_node", problems=(409,))
async def remove_node(ask: Ask) -> Reply:
    """End a node that has stopped without leaving. 409 while its lease holds."""
    await ask.verbs.nodes.remove(ask.path("name"))
    return nothing()
