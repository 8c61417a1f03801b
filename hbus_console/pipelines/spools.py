"""The spools of this installation: which topics need one, and the group by which each is filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from engine.bus import BusConfig
from engine.bus.errors import UNANSWERED
from engine.core.error_text import words_of
from engine.core.errors import Conflict, Unavailable
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.lake.state import LakeState
from engine.pipeline.source.opening import SPOOL
from engine.pipeline.spool.errors import SpoolDamaged
from engine.pipeline.spool.files import folder, paths_in, spools_beside
from engine.pipeline.spool.leaving import let_go
from engine.pipeline.spool.reading import LOG
from engine.pipeline.spool.spooling import GROUP, Spooler, can_be_spooled, make_group
from hbus_console.pipelines.silent import SilentCarriers
from hbus_console.pipelines.the_lake import lake
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.transport_objects import after_commit, remove_after_commit
from hbus_console.wiring import bus, store
from hbus_console.wiring.lake import lake as wired_lake

#: The duty of the keeper that fills them, under whose lease all do it who do.
DUTY = "archive-spool"
#: For about how long a run of the archive does, seconds: for as long as the lease lasts by itself.
AT_MOST_S = store.LEASE_S - 2


def spool_root() -> Path:
    """Where they lie: beside the files of the lake, and closed to others as these are."""
    return spools_beside(wired_lake().root)


def spool_config() -> BusConfig:
    """What a source reads them by."""
    return BusConfig(type=SPOOL, url=str(spool_root()))


def spooled_on(topic: Topic) -> list[str]:
    """The transports of it that forget what was settled. Raises ``ConfigurationError`` for one that is not there."""
    return [carrier for carrier in topic.carriers if can_be_spooled(bus.transport(carrier))]


def has_spool(topic: str) -> bool:
    """Whether anything was ever spooled of it; a look at one folder."""
    return bool(paths_in(folder(spool_root(), topic)))


def spooler(topic: str, carrier: str) -> Spooler:
    """Whoever makes one closes it. Raises ``LakeDamaged``: a folder that is not mounted is no place to put anything."""
    lake()
    return Spooler(bus.transport(carrier), topic, spool_root(), consumer=store.node_name())


def begin_spooling(topic: Topic) -> None:
    """After the commit what comes waits for the spool. Raises :class:`Conflict` while what was there before is being
    removed: it would be removed with it."""
    if StoreRemoval.objects.filter(topic=topic.name, group=GROUP).exists():
        raise Conflict(
            f"What the archive of {topic.name} left in its transport is still being removed.",
            remedy="Try again in a minute.",
            field="topic",
        )
    for carrier in spooled_on(topic):
        after_commit(
            f"make the archive's group of {topic.name}", partial(make_group, bus.transport(carrier), topic.name)
        )


def end_spooling(topic: Topic) -> None:
    """After the commit nothing waits for the spool any more, and nothing piles up for nobody."""
    remove_after_commit(
        [StoreRemoval.objects.create(topic=topic.name, group=GROUP, transport=carrier) for carrier in spooled_on(topic)]
    )


def spool_what_waits(topics: Iterable[Topic], warn: Callable[[str], None]) -> None:
    """Where no keeper does it: so a run of the archive has what there is all the same. For :data:`AT_MOST_S` at most.

    Raises ``LakeDamaged``.
    """
    wanted = [(topic.name, carrier) for topic in topics for carrier in spooled_on(topic)]
    lease = store.lease(f"duty:{DUTY}")
    try:
        if not wanted or not lease.acquire():
            return
        for topic, carrier in wanted:
            _spool(topic, carrier, AT_MOST_S / len(wanted), warn)
        lease.release()
    except Unavailable as error:
        warn(f"What waits is not spooled yet: {error}")


def _spool(topic: str, carrier: str, budget_s: float, warn: Callable[[str], None]) -> None:
    it = spooler(topic, carrier)
    try:
        it.turn(budget_s)
    except (*UNANSWERED, SpoolDamaged, OSError) as error:
        warn(f"What waits of {topic} on {carrier} is not spooled yet: {words_of(error)}")
    finally:
        it.close()


def unspooled_of(topic: Topic, silent: SilentCarriers | None = None) -> int | None:
    """How many messages wait in its transports to be spooled; ``None`` where one cannot tell. Asks the store, but for
    those that are ``silent``."""
    waiting, silent = 0, silent or SilentCarriers()
    for carrier in spooled_on(topic):
        if carrier in silent:
            return None
        try:
            with silent.asking(carrier):
                number = bus.admin(carrier).lag(topic.name, GROUP).unsettled
        except UNANSWERED:
            return None
        if number is None:
            return None
        waiting += number
    return waiting


def leave_what_is_archived(state: LakeState, now_ms: int) -> None:
    """Whole files whose messages are in ``state`` of the lake go from the spools an hour after they came.

    Raises ``OSError`` and :class:`~engine.pipeline.spool.errors.SpoolDamaged`.
    """
    for topic in state.topics:
        reached = state.reached(topic).get(LOG)
        if reached is not None and reached.at and has_spool(topic):
            let_go(
                spool_root(),
                topic,
                life=reached.life,
                upto=int(reached.at),
                before_ms=now_ms - round(GRACE_S * 1000),
            )
