"""Where the steps of the slot protocol go in an installation: the store, the database, and the workers' queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import redis
from django.conf import settings

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
    Queued,
    ReadCursors,
    ReadOpen,
    ReadRun,
    Release,
    Renew,
    WorkingNodes,
)
from engine.cron.slots.store import SlotStore
from hbus_console.jobs import queue
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.queue import offer
from hbus_console.jobs.workers import working_nodes
from hbus_console.wiring.cron import slot_store


def own_places(client: redis.Redis) -> Act:
    """:func:`places` of this installation, with ``client`` for those that are in the store."""
    return places(slot_store(client), SlotJudge(), offer, lambda: working_nodes(client, settings.HBUS_PREFIX))


def places(
    store: SlotStore,
    judge: SlotJudge,
    offer: Callable[[Offer], None],
    nodes: Callable[[], tuple[str, ...]],
    queued: Callable[[Queued], Mapping[str, int]] = queue.queued,
) -> Act:
    """Every step but those of this process. Thread-safe where ``offer`` is, and ``nodes``, which says where workers
    live; they raise ``Unavailable`` likewise. ``queued``: of the queue into which ``offer`` puts them.
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
            Queued: queued,
        }
    )
