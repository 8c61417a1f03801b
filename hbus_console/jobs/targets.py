"""Jobs, as alert rules watch them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.cron.subjects import JOB, job_subject
from hbus_console.alerts.targets import Target, TargetKind, Way
from hbus_console.jobs.models import Job
from hbus_console.registry.pages import page


def _jobs() -> Iterable[Target]:
    rows = Job.objects.order_by().values_list("name", "team_id", "paused", "created_at")
    for name, team, paused, at in rows:
        yield Target(job_subject(name), team, paused, round(at.timestamp() * 1000))


JOBS = TargetKind(
    JOB,
    _jobs,
    ways=(
        Way(("settings", "timeout"), "Open its settings", lambda subject: page("jobs:settings", subject.namespace)),
        Way(("cluster", "node", "worker"), "Open the cluster", lambda _: page("cluster:overview")),
    ),
)
