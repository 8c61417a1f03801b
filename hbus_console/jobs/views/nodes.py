"""Who decides slots and who does the work, how far their clocks are apart, and the leases that stand in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import ConfigurationError, Unavailable
from engine.cron.slots.steps import RunState, SlotKey
from engine.cron.slots.store import SeenLease, SeenMarker
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view
from hbus_console.api.form_posts import carried_out_elsewhere
from hbus_console.api.idempotency import Repeat
from hbus_console.cluster import probes
from hbus_console.cluster.services import living
from hbus_console.jobs.busy import saturation
from hbus_console.jobs.feature import JOB_RELEASE
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.leases import release_lease
from hbus_console.ui.pages import act, clock
from hbus_console.wiring.cron import slot_store

#: Runs whose leases the page shows, those that began first.
MOST_LEASES = 100
#: Slots whose markers it shows, those that were decided last.
MOST_MARKERS = 30
_ROLES = ("cron", "jobs")
#: What is said of a line whose part in the store could not be read: that there is none would be an answer.
UNREAD = "the store could not be read", "warn"


@dataclass(frozen=True)
class LeaseLine:
    """A run that goes on, with its lease in the store; ``None`` where nobody has one, or the store was not ``read``."""

    run: JobRun
    lease: SeenLease | None
    took_us: int
    may_release: bool
    read: bool = True

    @property
    def state(self) -> tuple[str, str]:
        """What is to be said of it, and its tone."""
        if not self.read:
            return UNREAD
        if self.lease is None:
            return "no lease: it is lost unless that comes back", "bad"
        if self.lease.epoch != self.run.epoch:
            return f"another began it, under epoch {self.lease.epoch}", "warn"
        return "held", "ok"


@dataclass(frozen=True)
class MarkerLine:
    """A slot that was decided, with its marker in the store; ``None`` where that is forgotten, or was not ``read``."""

    run: JobRun
    marker: SeenMarker | None
    read: bool = True

    @property
    def slot_ms(self) -> int:
        return self.run.slot * 1_000

    @property
    def left_us(self) -> int:
        """Until the store forgets it."""
        return round(self.marker.left_s * 1_000_000) if self.marker else 0

    @property
    def state(self) -> tuple[str, str]:
        """What is to be said of it, and its tone."""
        if not self.read:
            return UNREAD
        if self.marker is None:
            return "forgotten: its row alone keeps the slot", "warn"
        if self.marker.node != self.run.node:
            return f"claimed by {self.marker.node}", "warn"
        return "claimed by who decided it", "ok"


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def nodes(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    found, trouble = living()
    lines, away = _leases(who)
    context: dict[str, Any] = {
        "nav": "jobs",
        "nodes": [node for node in found if node.role in _ROLES],
        "nodes_read": not trouble,
        "saturation": saturation(who),
        "trouble": trouble or away,
        "lines": lines,
        "most": MOST_LEASES,
        "markers": _markers(who, read=not away),
        "most_markers": MOST_MARKERS,
        "apart_ms": None if away else _apart_ms(),
    }
    return render(request, "jobs/nodes.html", context)


@carried_out_elsewhere(Repeat.KNOWN_BY_ITS_EFFECT)
@require_POST
@console_view(VIEW, post=JOB_RELEASE, resource="{job}")
def release(request: HttpRequest, job: str, run_id: int) -> HttpResponse:
    def do() -> object:
        return release_lease(actor(request), job, run_id, request.POST.get("reason", ""))

    return act(request, f"The lease of run {run_id} is taken away.", do, "jobs:run", job, run_id)


def _leases(who: Actor) -> tuple[list[LeaseLine], str]:
    rows = JobRun.objects.filter(namespace_q(who, "job"), ended_us=None, state=RunState.RUNNING)
    # Nobody here works on those, under whatever lease.
    rows = rows.exclude(job__in=Job.objects.elsewhere().values("name"))
    runs, now_us = list(rows.order_by("begun_us")[:MOST_LEASES]), clock.now_ms() * 1_000
    leases: Mapping[int, SeenLease] = {}
    away = ""
    try:
        leases = slot_store(probes.client()).leases([run.pk for run in runs]) if runs else {}
    except (Unavailable, ConfigurationError) as error:
        away = error.what
    return [
        LeaseLine(
            run,
            leases.get(run.pk),
            max(0, now_us - (run.begun_us or now_us)),
            allows(who, JOB_RELEASE, run.job),
            not away,
        )
        for run in runs
    ], away


def _markers(who: Actor, *, read: bool) -> list[MarkerLine]:
    """``read``: the store answers; what does not is asked once."""
    rows = JobRun.objects.filter(namespace_q(who, "job"), kind=JobRun.Kind.SCHEDULE).order_by("-slot", "-pk")
    runs = list(rows[:MOST_MARKERS])
    keys = {run.pk: SlotKey(run.job, run.version, run.slot) for run in runs}
    found: Mapping[SlotKey, SeenMarker] = {}
    try:
        found = slot_store(probes.client()).markers(list(keys.values())) if runs and read else {}
    except (Unavailable, ConfigurationError):
        read = False
    return [MarkerLine(run, found.get(keys[run.pk]), read) for run in runs]


def _apart_ms() -> int | None:
    """How far the clocks of database and store are apart: both judge, each of its own."""
    try:
        return abs(round((database_time() - slot_store(probes.client()).time()) * 1000))
    except (Unavailable, ConfigurationError):
        return None
