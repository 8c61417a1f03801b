"""The jobs of the archive: they are there as soon as a topic is archived, each once, for all topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.cron.slots.job import Overlap
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.pipelines.feature import AUDIT_JOB, JOB, QUERY_JOB, ROLLUP_JOB
from hbus_console.pipelines.models import ArchivedTopic


@dataclass(frozen=True, slots=True)
class StandingJob:
    schedule: str
    does: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    overlap: str = Overlap.RUN.value


#: By their names. The audit looks over eight days each night: what comes late is looked at again on each of them.
STANDING_JOBS = {
    JOB: StandingJob("* * * * *", "Puts what the archived topics hold into the lake."),
    ROLLUP_JOB: StandingJob("*/5 * * * *", "Makes series of what came into the lake."),
    AUDIT_JOB: StandingJob("20 3 * * *", "Audits what the archive has of every topic.", {"days": 8}),
    # One after the other: whoever asks takes one of the workers' places at most from all other jobs.
    QUERY_JOB: StandingJob(
        "@never", "Runs the queries of the archive that somebody asks for.", {"query": 0}, Overlap.QUEUE.value
    ),
}


def have_jobs(owner: str, why: str, wanted: Iterable[str] = STANDING_JOBS) -> list[str]:
    """Make those that are not there, for the team ``owner`` to answer for; their names."""
    there = set(Job.objects.filter(name__in=STANDING_JOBS).values_list("name", flat=True))
    made = [name for name in wanted if name not in there]
    for name in made:
        job = STANDING_JOBS[name]
        draft = JobDraft(
            name=name,
            owner=owner,
            kind="function",
            target=name,
            schedule=job.schedule,
            timeout_s=0,
            parameters=dict(job.parameters),
            description=job.does,
            overlap=job.overlap,
        )
        # It serves every archived topic, whoever had the first one archived and whatever that person may do.
        create_job(SYSTEM, draft, why)
    return made


def prepare(say: Callable[[str], None]) -> None:
    """For an installation that archived before there were all of them."""
    archived = ArchivedTopic.objects.filter(topic__team__isnull=False).select_related("topic__team").first()
    if archived is None or archived.topic.team is None:
        return
    for name in have_jobs(archived.topic.team.name, "Topics are archived."):
        say(f"The job {name}: {STANDING_JOBS[name].does}")
