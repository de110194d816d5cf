"""The user's face: `App` and what it hands out."""

from mainspring.app.application import App
from mainspring.app.function import JobFunction
from mainspring.app.handle import Job, JobStatus

__all__ = ["App", "Job", "JobFunction", "JobStatus"]
