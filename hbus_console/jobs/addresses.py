"""Where the subjects of this feature are shown."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.jobs.models import Job
from hbus_console.registry.pages import page


def job(subject: Subject) -> str:
    """The page of a job."""
    return page("jobs:detail", subject.namespace)


def run(subject: Subject) -> str:
    """The page of a run."""
    return page("jobs:run", subject.namespace, subject.name)


def tag(subject: Subject) -> str:
    """Where its limit is."""
    return page("jobs:tags")


def calendar(subject: Subject) -> str:
    """The page of a calendar."""
    return page("jobs:calendar", subject.namespace)


def text(row: Job) -> str:
    """What a list of a team's jobs calls one."""
    return row.name


def address(row: Job) -> str:
    """Its page."""
    return job(row.subject)
