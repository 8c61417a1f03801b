"""Jobs by a part of their name, and a run by its number."""

from __future__ import annotations

from django.urls import reverse

from engine.core.numbers import whole
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.jobs.models import Job, JobRun
from hbus_console.ui.finding import MOST, Hit, HitGroup, group


def find(who: Actor, text: str) -> list[HitGroup]:
    """What ``who`` may see: a query, and another for a number."""
    rows = Job.objects.filter(namespace_q(who, "name"), name__icontains=text)[: MOST + 1]
    found = [group("Jobs", (Hit(row.name, row.schedule, reverse("jobs:detail", args=[row.name])) for row in rows))]
    number = whole(text)
    if number is None or number >= 2**63:
        return found
    runs = JobRun.objects.filter(namespace_q(who, "job"), pk=number)
    hits = (
        Hit(f"Run {run.pk}", f"{run.job}, {run.state}", reverse("jobs:run", args=[run.job, run.pk])) for run in runs
    )
    return [*found, group("Runs", hits)]
