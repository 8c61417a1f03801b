"""How the archive stands, topic by topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import structlog
from django.db.models import QuerySet

from engine.bus import Rereads
from engine.core.error_text import words_of
from engine.core.errors import HbusError
from engine.pipeline.lake.state import Kind, KnownLoss, LakeState, TopicRules
from engine.pipeline.source.planning import counted_together, plan
from engine.pipeline.spool.reading import SpoolReader
from hbus_console.access.permissions import Actor
from hbus_console.access.scopes import namespace_q
from hbus_console.messages.sizes import tells_sizes
from hbus_console.pipelines.services import is_archivable, reread_on
from hbus_console.pipelines.silent import SilentCarriers
from hbus_console.pipelines.spools import has_spool, spool_root, spooled_on, unspooled_of
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TopicStanding:
    """One topic's part of the lake."""

    topic: Topic
    archived: bool
    #: By what they are.
    rows: Mapping[Kind, int]
    bytes: int
    #: When the oldest of what these are about happened, epoch milliseconds; 0: there is none.
    first_ms: int
    files: int
    #: The first and the last day that the lake has messages of; empty: none.
    first_day: str
    last_day: str
    #: When the last message that is in it was stored, epoch milliseconds; 0: none is.
    upto_ms: int
    #: When the last that is in it of what the ledger tells happened, likewise.
    ledger_upto_ms: int
    #: When it was archived last, likewise.
    archived_ms: int
    losses: Sequence[KnownLoss]
    #: What may go of it.
    rules: TopicRules

    @property
    def messages(self) -> int:
        """How many the lake has."""
        return self.rows[Kind.MESSAGES]

    @property
    def archivable(self) -> bool:
        """Whether it can be archived."""
        return is_archivable(self.topic)

    @property
    def lost(self) -> int:
        """How many messages are known to be gone."""
        return _counted(self.losses, of_ledger=False)

    @property
    def uncounted_losses(self) -> int:
        """How many losses nobody knows the size of."""
        return _uncounted(self.losses, of_ledger=False)

    @property
    def ledger_lost(self) -> int:
        """How many rows of the ledger."""
        return _counted(self.losses, of_ledger=True)

    @property
    def ledger_uncounted_losses(self) -> int:
        """Likewise of the ledger."""
        return _uncounted(self.losses, of_ledger=True)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a topic holds and the lake has not; ``None`` where a store does not say."""

    #: All of it.
    messages: int | None
    #: Of these, what waits in the topic's transport to be spooled; ``None`` also of a topic that needs no spool.
    unspooled: int | None


#: What the logs of the ledger are called.
_LEDGER = (Kind.PUBLISHED, Kind.DELIVERIES)


def _counted(losses: Sequence[KnownLoss], *, of_ledger: bool) -> int:
    return sum(known.loss.messages or 0 for known in losses if (known.loss.log in _LEDGER) is of_ledger)


def _uncounted(losses: Sequence[KnownLoss], *, of_ledger: bool) -> int:
    return sum(known.loss.messages is None for known in losses if (known.loss.log in _LEDGER) is of_ledger)


class Standings:
    """How each topic stands in one state of the lake: its files are gone through once."""

    def __init__(self, state: LakeState, *, in_haste: bool = False) -> None:
        """``in_haste``: what waits is not known at once where the store hangs, as for a page."""
        self._state = state
        self._silent = SilentCarriers(in_haste=in_haste)
        self._rows: dict[str, Counter[Kind]] = defaultdict(Counter)
        self._bytes: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._first_ms: dict[str, int] = {}
        self._days: dict[str, tuple[str, str]] = {}
        self._upto_ms: Counter[str] = Counter()
        self._ledger_upto_ms: Counter[str] = Counter()
        for file in state.files.values():
            self._rows[file.topic][file.kind] += file.rows
            self._bytes[file.topic] += file.bytes
            self._files[file.topic] += 1
            self._first_ms[file.topic] = min(self._first_ms.get(file.topic, file.first_ms), file.first_ms)
            upto_ms = self._upto_ms if file.kind is Kind.MESSAGES else self._ledger_upto_ms
            upto_ms[file.topic] = max(upto_ms[file.topic], file.last_ms)
            if file.kind is Kind.MESSAGES:
                first, last = self._days.get(file.topic, (file.date, file.date))
                self._days[file.topic] = min(first, file.date), max(last, file.date)

    def of(self, topic: Topic) -> TopicStanding:
        """One topic, whose ``archived`` was asked for with it."""
        name, held = topic.name, self._state.held(topic.name)
        first, last = self._days.get(name, ("", ""))
        return TopicStanding(
            topic=topic,
            archived=hasattr(topic, "archived"),
            rows=self._rows[name],
            bytes=self._bytes[name],
            first_ms=self._first_ms.get(name, 0),
            files=self._files[name],
            first_day=first,
            last_day=last,
            upto_ms=self._upto_ms[name],
            ledger_upto_ms=self._ledger_upto_ms[name],
            archived_ms=held.archived_ms,
            losses=held.losses,
            rules=held.rules,
        )

    def waiting(self, topic: Topic) -> Waiting:
        """What of it the lake has not. Asks the store, and the spool; not a store that did not answer just now."""
        reached = self._state.reached(topic.name)
        parts: list[int | None] = []
        unspooled = None
        try:
            # First: what goes into the spool meanwhile is counted twice, and not passed over.
            if spooled_on(topic):
                unspooled = unspooled_of(topic, self._silent)
                parts.append(unspooled)
            again = reread_on(topic)
            if again and isinstance(admin := bus.admin(again), Rereads):
                if again in self._silent:
                    return Waiting(None, unspooled)
                with self._silent.asking(again):
                    parts.append(counted_together(plan(reached, admin.extents(topic.name)).portions))
            if has_spool(topic.name):
                with closing(SpoolReader(spool_root())) as spool:
                    parts.append(counted_together(plan(reached, spool.extents(topic.name)).portions))
        except (HbusError, OSError) as error:
            _log.warning("archive_not_told", topic=topic.name, error=words_of(error))
            return Waiting(None, unspooled)
        known = [part for part in parts if part is not None]
        return Waiting(sum(known) if parts and len(known) == len(parts) else None, unspooled)


def size_told(actor: Actor, it: TopicStanding) -> int | None:
    """The bytes of it, as far as ``actor`` may be told them; ``None``: they may not."""
    if not it.bytes:
        return 0
    return it.bytes if tells_sizes(actor, it.topic.name, it.topic, it.first_ms) else None


def topics_seen(actor: Actor) -> QuerySet[Topic]:
    """Those that ``actor`` may see."""
    return Topic.objects.filter(namespace_q(actor, "name")).select_related("archived")
