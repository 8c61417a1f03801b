"""Runs in a state or of a kind, asked for so that an index finds them: also where there are few among many, or none."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from engine.cron.slots.steps import OPEN
from hbus_console.jobs.models import ENDED, UNPLANNED, JobRun


def narrowed(runs: QuerySet[JobRun], *, job: str = "", state: str = "", kind: str = "") -> QuerySet[JobRun]:
    """Those of ``runs`` that are so; what is empty narrows nothing."""
    if kind:
        runs = runs.filter(kind=kind)
    if job:
        # Its own runs are found by it: what finds those of all jobs would be worse, and be taken for as good.
        runs = runs.filter(job=job)
        if state:
            runs = runs.filter(state=state, **({"ended_us": None} if state in OPEN else {}))
        return runs
    if state in OPEN:
        # These first, and then their order: SQLite, which knows nothing of an index while that is empty, would rather
        # go through all runs in that order.
        runs = runs.filter(pk__in=JobRun.objects.filter(state=state, ended_us=None).order_by().values("pk"))
    elif state:
        runs = runs.filter(ENDED, state=state)
    if kind and kind != JobRun.Kind.SCHEDULE:
        runs = runs.filter(UNPLANNED)
    return runs


def before(slot: int, run: int) -> Q:
    """What comes behind this run where the newest slot is first.

    In one range of slots: SQLite looks for the beginning of that, and walks to it from the newest where it reads of
    two ranges.
    """
    return Q(slot__lte=slot) & (Q(slot__lt=slot) | Q(pk__lt=run))
