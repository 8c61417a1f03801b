"""How busy the workers are: what a run that could begin waits for, and how many runs do, for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Min, QuerySet
from django.db.models.functions import Greatest

from engine.core.clock import SystemClock
from engine.cron.slots.parts import host_of, host_of_owner, node_of
from engine.cron.slots.steps import RunState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.cluster.services import living
from hbus_console.jobs.holding import going_on, leases_of_numbers
from hbus_console.jobs.models import Job, JobRun
from hbus_console.nodes.stamps import Node, of_role
from hbus_console.ui import formats

#: Runs that are named; of more it is said how many.
MOST_NAMED = 8
#: Seconds that a run may wait for a worker before that is worth a word, and before it is worth a colour.
TOLD_S, LATE_S = 5, 30

_clock = SystemClock()


@dataclass(frozen=True)
class Busy:
    """What is to be said of the workers that a run waits for, and the runs that they do, as its reader may see them."""

    words: str = "a worker"
    runs: tuple[JobRun, ...] = ()
    #: Runs that are not named: too many, or of jobs that the reader may not see.
    others: int = 0
    #: When what it waits for comes, if that is known.
    at_ms: int | None = None


@dataclass(frozen=True)
class Workers:
    """Those of one machine, or of all: ``slots`` is how many runs they do at once, 0 where one does not tell."""

    alive: int
    slots: int
    doing: tuple[JobRun, ...]
    #: Why nobody can tell; empty where they were read.
    trouble: str = ""

    @property
    def full(self) -> bool:
        return bool(self.slots) and len(self.doing) >= self.slots

    @property
    def all_busy(self) -> str:
        """``its one slot is busy``."""
        return f"{'its one slot is' if self.slots == 1 else f'all {formats.num(self.slots)} slots are'} busy"


@dataclass(frozen=True)
class Line:
    """The runs that wait for a worker, and for nothing else."""

    runs: int = 0
    #: When the one that has waited longest was due.
    since_us: int = 0

    @property
    def words(self) -> str:
        """``28 runs wait for a worker``."""
        return f"{formats.counted(self.runs, 'run')} {'waits' if self.runs == 1 else 'wait'} for a worker"

    @property
    def since_ms(self) -> int:
        return self.since_us // 1_000

    def waited_s(self, now_us: int) -> float:
        return max(0.0, (now_us - self.since_us) / 1_000_000) if self.runs else 0.0


@dataclass(frozen=True)
class Saturation:
    """What pages say where runs wait for workers for longer than these take to look."""

    line: Line
    workers: Workers
    tone: str

    @property
    def words(self) -> str:
        """Of the workers: ``2 of 2 slots are busy``; empty where that is not known."""
        if self.workers.trouble:
            return ""
        if not self.workers.alive:
            return "none is alive"
        busy = min(len(self.workers.doing), self.workers.slots)
        return (
            f"{formats.num(busy)} of {formats.counted(self.workers.slots, 'slot')} busy" if self.workers.slots else ""
        )


def busy_with(who: Actor, run: JobRun) -> Busy:
    """Of the workers that may do ``run``."""
    host = run.node_wanted
    where = f" {run.part_words}" if host else ""
    workers = workers_of(host)
    if workers.trouble:
        return Busy(f"a worker{where}")
    if not workers.alive:
        return Busy(f"a worker{where}: none is alive there" if host else "a worker: none is alive")
    if not workers.full:
        return Busy(f"a worker{where}")
    named = [each for each in workers.doing if allows(who, VIEW, each.job)][:MOST_NAMED]
    return Busy(f"a worker{where}: {workers.all_busy}", tuple(named), len(workers.doing) - len(named))


def workers_of(host: str = "") -> Workers:
    """Those on ``host``; without one, all."""
    found, trouble = living()
    if trouble:
        return Workers(0, 0, (), trouble)
    workers = [node for node in of_role(found, "jobs") if host in ("", host_of(node.name))]
    doing = [each for each in going_on(JobRun.objects.order_by("begun_us")) if host in ("", host_of_owner(each.owner))]
    # Whoever did them is dead, and its slot is another's.
    over = leases_of_numbers([each.pk for each in doing]).over
    return Workers(len(workers), _slots(workers), tuple(each for each in doing if each.pk not in over))


def waiting(now_us: int) -> QuerySet[JobRun]:
    """The runs that wait for a worker, and for nothing else."""
    rows = JobRun.objects.filter(ended_us=None, state=RunState.CLAIMED, waits=False, not_before_us__lte=now_us)
    # Slots are decided ahead of their time. What runs elsewhere waits for a ping.
    rows = rows.filter(slot__lte=now_us // 1_000_000)
    return rows.exclude(job__in=Job.objects.elsewhere().values("name"))


def line_of(rows: QuerySet[JobRun]) -> Line:
    """Of :func:`waiting` runs how many there are and since when."""
    slot_us = ExpressionWrapper(F("slot") * 1_000_000, BigIntegerField())
    # What is tried again has waited since its last attempt ended, or since the pause after that.
    begins_us = Greatest(slot_us, F("not_before_us"))
    rows = rows.order_by()
    first = rows.filter(attempt=1).aggregate(since=Min(begins_us))["since"]
    again = rows.exclude(attempt=1).aggregate(since=Min(Greatest(F("changed_us"), F("not_before_us"))))["since"]
    return Line(rows.count(), min((each for each in (first, again) if each is not None), default=0))


def saturation(who: Actor | None = None) -> Saturation | None:
    """Whether runs wait for workers, those that ``who`` may see; ``None`` where none has for long enough to tell."""
    now_us = _clock.now_ms() * 1_000
    rows = waiting(now_us)
    line = line_of(rows.filter(namespace_q(who, "job")) if who else rows)
    waited_s = line.waited_s(now_us)
    return Saturation(line, workers_of(), "warn" if waited_s >= LATE_S else "muted") if waited_s >= TOLD_S else None


def role_words() -> tuple[str, str]:
    """For the role of the workers, while any lives: what is to be said of them and its tone; empty where nothing is.

    Of the runs of all namespaces.
    """
    found = saturation()
    if found is None:
        return "", ""
    said = ", ".join(part for part in (found.line.words, found.words) if part)
    return said, "warn" if found.tone == "warn" else ""


def room_for(parts: Iterable[str]) -> str:
    """Why a run of these parts would not begin at once, though nothing of its job hinders it; empty where it would."""
    # There may be many: they are counted where they lie, and once for all parts.
    counted = waiting(_clock.now_ms() * 1_000).order_by().values_list("part").annotate(runs=Count("pk"))
    by_part: dict[str, int] = dict(counted)
    for host in sorted({node_of(part) for part in parts} or {""}):
        workers = workers_of(host)
        before = sum(runs for part, runs in by_part.items() if node_of(part) in ("", host))
        if not workers.slots or len(workers.doing) + before < workers.slots:
            continue
        where = f" on {host}" if host else ""
        busy = workers.all_busy if workers.full else f"there {'is' if workers.slots == 1 else 'are'} {workers.slots:,}"
        ahead = f", and {formats.counted(before, 'run')} {'waits' if before == 1 else 'wait'} before it"
        return f"when a worker{where} is free ({busy}{ahead if before else ''})"
    return ""


def _slots(workers: Iterable[Node]) -> int:
    """How many runs they do at once, as they tell; 0 where one does not."""
    told = [node.detail.get("processes") for node in workers]
    return sum(each for each in told if isinstance(each, int)) if all(isinstance(each, int) for each in told) else 0
