"""The user's face: `App` and what it hands out."""

from mainspring.app.application import App
from mainspring.app.function import JobFunction
from mainspring.app.handle import Job, JobStatus
from mainspring.store.contract import Transaction

__all__ = ["App", "Job", "JobFunction", "JobStatus", "Transaction"]
