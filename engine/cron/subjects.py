"""How jobs and what belongs to them are spoken of: ``job:NAME``, ``run:NAME/ID``, ``tag:TAG``, ``calendar:NAME``."""

from __future__ import annotations

from engine.core.subject import Subject

JOB, RUN, TAG, CALENDAR = "job", "run", "tag", "calendar"


def job_subject(name: str) -> Subject:
    """A job is the entry of the namespace that its name is. Raises ``BadInput`` for a name no subject may have."""
    return Subject(JOB, name)


def run_subject(job: str, run: int) -> Subject:
    """One run, in the namespace of its job. Raises as :func:`job_subject`."""
    return Subject(RUN, job, str(run))


def tag_subject(tag: str) -> Subject:
    """What jobs share. Raises as :func:`job_subject`."""
    return Subject(TAG, tag)


def calendar_subject(name: str) -> Subject:
    """Days that jobs leave out together. Raises as :func:`job_subject`."""
    return Subject(CALENDAR, name)
