"""Where the steps of the slot protocol go in an installation: the store, the database, and the workers' queue."""

from __future__ import annotations

from collections.abc import Callable

from engine.cron.slots.driving import Act, acts
from engine.cron.slots.steps import (
    Acquire,
    Begin,
    CancelledRuns,
    ClaimSlots,
    End,
    GiveUp,
    LeasesHeld,
    Offer,
    OpenRuns,
    ReadCursors,
    ReadOpen,
    ReadRun,
    Release,
    Renew,
    WorkingNodes,
)
from engine.cron.slots.store import SlotStore
from hbus_console.jobs.judge import SlotJudge


def places(
    store: SlotStore, judge: SlotJudge, offer: Callable[[Offer], None], nodes: Callable[[], tuple[str, ...]]
) -> Act:
    """Every step but those of this process. Thread-safe where ``offer`` is, and ``nodes``, which says where workers
    live; they raise ``Unavailable`` likewise.
    """
    return acts(
        {
            ClaimSlots: store.claim,
            Acquire: store.acquire,
            Renew: store.renew,
            Release: store.release,
            LeasesHeld: store.leases_held,
            ReadCursors: judge.read_cursors,
            OpenRuns: judge.open_runs,
            ReadRun: judge.read_run,
            Begin: judge.begin,
            End: judge.end,
            CancelledRuns: judge.cancelled,
            ReadOpen: judge.read_open,
            GiveUp: judge.give_up,
            WorkingNodes: lambda step: nodes(),
            Offer: offer,
        }
    )
