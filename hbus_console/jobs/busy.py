"""What a run that could begin waits for: workers, and what these are busy with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.cron.slots.parts import host_of, host_of_owner
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.cluster.services import living
from hbus_console.jobs.holding import going_on, leases_of_numbers
from hbus_console.jobs.models import JobRun
from hbus_console.nodes.stamps import Node, of_role
from hbus_console.ui import formats

#: Runs that are named; of more it is said how many.
MOST_NAMED = 8


@dataclass(frozen=True)
class Busy:
    """What is to be said of the workers that a run waits for, and the runs that they do, as its reader may see them."""

    words: str = "a worker"
    runs: tuple[JobRun, ...] = ()
    #: Runs that are not named: too many, or of jobs that the reader may not see.
    others: int = 0
    #: When what it waits for comes, if that is known.
    at_ms: int | None = None


def busy_with(who: Actor, run: JobRun) -> Busy:
    """Of the workers that may do ``run``."""
    host = run.node_wanted
    where = f" {run.part_words}" if host else ""
    found, trouble = living()
    if trouble:
        return Busy(f"a worker{where}")
    workers = [node for node in of_role(found, "jobs") if host in ("", host_of(node.name))]
    if not workers:
        return Busy(f"a worker{where}: none is alive there" if host else "a worker: none is alive")
    doing = [each for each in going_on(JobRun.objects.order_by("begun_us")) if host in ("", host_of_owner(each.owner))]
    # Whoever did them is dead, and its slot is another's.
    over = leases_of_numbers([each.pk for each in doing]).over
    doing = [each for each in doing if each.pk not in over]
    slots = _slots(workers)
    if not slots or len(doing) < slots:
        return Busy(f"a worker{where}")
    named = [each for each in doing if allows(who, VIEW, each.job)][:MOST_NAMED]
    all_ = "its one slot is" if slots == 1 else f"all {formats.num(slots)} slots are"
    return Busy(f"a worker{where}: {all_} busy", tuple(named), len(doing) - len(named))


def _slots(workers: Iterable[Node]) -> int:
    """How many runs they do at once, as they tell; 0 where one does not."""
    told = [node.detail.get("processes") for node in workers]
    return sum(each for each in told if isinstance(each, int)) if all(isinstance(each, int) for each in told) else 0
