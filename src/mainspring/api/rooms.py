"""Every operation of the API, room by room."""

from mainspring.api.access import ACCESS
from mainspring.api.events import EVENTS
from mainspring.api.jobs import JOBS
from mainspring.api.logs import LOGS
from mainspring.api.nodes import NODES, WORKER_LIST
from mainspring.api.objects import WORKER_OBJECTS
from mainspring.api.operations import Operation
from mainspring.api.queues import QUEUES
from mainspring.api.results import RESULTS
from mainspring.api.schedules import SCHEDULES
from mainspring.api.secrets import SECRETS
from mainspring.api.submits import SUBMITS
from mainspring.api.system import SYSTEM
from mainspring.api.templates import TEMPLATES
from mainspring.api.workers import WORKERS

ROOMS = (
    SUBMITS,
    JOBS,
    RESULTS,
    SCHEDULES,
    TEMPLATES,
    QUEUES,
    WORKER_LIST,
    WORKERS,
    WORKER_OBJECTS,
    NODES,
    EVENTS,
    LOGS,
    SYSTEM,
    ACCESS,
    SECRETS,
)

OPERATIONS: tuple[Operation, ...] = tuple(operation for room in ROOMS for operation in room.operations)
