"""Jobs by a part of their name."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.jobs.models import Job
from hbus_console.ui.finding import MOST, Hit, HitGroup, group


def find(who: Actor, text: str) -> list[HitGroup]:
    """What ``who`` may see: one query."""
    rows = Job.objects.filter(namespace_q(who, "name"), name__icontains=text)[: MOST + 1]
    return [group("Jobs", (Hit(row.name, row.schedule, reverse("jobs:detail", args=[row.name])) for row in rows))]
