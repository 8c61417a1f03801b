"""What moves: marks of the jobs whose runs or settings changed lately, of ``runs``, ``jobs`` and the limits of ``tags``
as families, and of the logs that grow (``log:RUN``).

A page of many jobs shows ``job``, which is any of them: that one was deleted, the audit log's marks tell.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import timedelta

from django.db.models import Count, Max

from engine.core.clock import to_datetime
from engine.cron.subjects import job_subject
from hbus_console.access.scopes import scopes_q
from hbus_console.jobs.models import JobRun, JobVersion, LogPiece, TagLimit
from hbus_console.ui.live import LiveCells

#: How far back changes are looked for: some looks, so that none is missed where one comes late.
LATELY_MS = 10_000


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """What changed lately in ``scopes``."""
    since_us = (now_ms - LATELY_MS) * 1_000
    marks: dict[str, Hashable] = {}
    runs = JobRun.objects.filter(scopes_q(scopes, "job"), changed_us__gte=since_us)
    for job, newest, count in runs.order_by().values_list("job").annotate(Max("changed_us"), Count("pk")):
        marks[str(job_subject(job))] = (newest, count)
    if marks:
        # All of them: the token differs also when the last of the jobs stands still.
        marks["runs"] = frozenset(marks.items())
    since = to_datetime(now_ms) - timedelta(milliseconds=LATELY_MS)
    versions = JobVersion.objects.filter(scopes_q(scopes, "job__name"), made_at__gte=since)
    numbers = list(versions.order_by().values_list("job__name").annotate(Max("number")))
    for job, number in numbers:
        name = str(job_subject(job))
        marks[name] = (marks.get(name), number)
    if numbers:
        marks["jobs"] = frozenset(numbers)
    if limits := frozenset(TagLimit.objects.filter(updated_at__gte=since).values_list("tag", "most_at_once")):
        marks["tags"] = limits
    growing = LogPiece.objects.filter(at_us__gte=since_us).order_by().values_list("run").annotate(Max("seq"))
    marks |= {f"log:{run}": seq for run, seq in growing}
    return LiveCells(marks=marks)
