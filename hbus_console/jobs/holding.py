"""Whether those who do the runs that go on still have their leases: as the store says now, which a row cannot tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from engine.core.errors import ConfigurationError, Unavailable
from engine.cron.slots.steps import RunState
from engine.cron.slots.store import SeenLease
from hbus_console.cluster import probes
from hbus_console.jobs.drawing import OVER, OVER_TONE, WAITS, tone_of_run
from hbus_console.jobs.models import Job, JobRun
from hbus_console.ui import formats
from hbus_console.wiring.cron import slot_store

_OVER_HINT = (
    "Its worker did not renew its lease. It ends as lost lease once that was gone for as long as a lease lasts."
)
_UNKNOWN = "Whether its worker has its lease is not known while the store does not answer."


@dataclass(frozen=True)
class RunStanding:
    """How a run stands, in a word with its colour, and what there is to add."""

    word: str
    tone: str
    hint: str = ""
    hint_tone: str = ""


@dataclass(frozen=True)
class Leases:
    """The leases of the runs that go on here, as they were when it was asked."""

    #: The runs that were asked for, without those that nobody here works on.
    asked: frozenset[int]
    held: Mapping[int, SeenLease]
    #: Why nobody can tell; empty where the store has answered.
    trouble: str = ""

    @property
    def over(self) -> frozenset[int]:
        """The runs whose leases nobody has; none while nobody can tell."""
        return frozenset() if self.trouble else self.asked - self.held.keys()

    def standing(self, run: JobRun) -> RunStanding:
        """Of a run as its row has it."""
        if run.pk in self.over:
            return RunStanding(OVER, OVER_TONE, _OVER_HINT, OVER_TONE)
        if run.state == RunState.CLAIMED:
            return RunStanding(WAITS, tone_of_run(run.state))
        hint = _UNKNOWN if self.trouble and run.pk in self.asked else ""
        return RunStanding(run.state, tone_of_run(run.state), hint, "warn")


def going_on(runs: QuerySet[JobRun]) -> QuerySet[JobRun]:
    """Those that a worker of ours does, as far as their rows know."""
    here = runs.filter(ended_us=None, state=RunState.RUNNING).exclude(kind=JobRun.Kind.PING)
    # Nobody here works on what runs elsewhere.
    return here.exclude(job__in=Job.objects.elsewhere().values("name"))


def leases_of(runs: Iterable[JobRun]) -> Leases:
    """The leases of those of ``runs`` that go on here."""
    candidates = [run.pk for run in runs if run.ended_us is None and run.state == RunState.RUNNING]
    asked = list(going_on(JobRun.objects.filter(pk__in=candidates)).values_list("pk", flat=True)) if candidates else []
    return leases_of_numbers(asked)


def leases_of_numbers(asked: list[int]) -> Leases:
    """As :func:`leases_of`, of runs that are known to go on."""
    if not asked:
        return Leases(frozenset(), {})
    try:
        # Pages and the poller of all live pages wait for it.
        held = slot_store(probes.client()).leases(asked)
    except (Unavailable, ConfigurationError) as error:
        return Leases(frozenset(asked), {}, error.what)
    if missing := [each for each in asked if each not in held]:
        # Whoever ends a run gives its lease up after that: of those that ended meanwhile none is missing.
        still = set(going_on(JobRun.objects.filter(pk__in=missing)).values_list("pk", flat=True))
        asked = [each for each in asked if each in held or each in still]
    return Leases(frozenset(asked), held)


def words_of_lease(run: JobRun, leases: Leases, lease_s: float) -> tuple[str, str]:
    """What is to be said of the lease of a run that goes on, and its tone.

    Not how much of it is left: no page hears of a renewal, and the figure would be wrong within seconds.
    """
    if leases.trouble:
        return "not known while the store does not answer", "warn"
    lease = leases.held.get(run.pk)
    if lease is None:
        return f"over: it ends as lost lease once that was gone for {formats.duration(lease_s * 1e6)}", OVER_TONE
    if lease.epoch != run.epoch:
        return f"another has it, under epoch {lease.epoch}", "warn"
    return "held", ""
