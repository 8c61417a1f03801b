"""The order of a subscription: its partitions and owners, keys that wait, and one key's messages in sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.bus import dead
from engine.bus.dead import DeadRecord
from engine.bus.errors import UNANSWERED, GroupLost
from engine.bus.fact_kinds import ATTEMPTED, FINAL
from engine.bus.partitions import Owned, Parked, partition_of
from hbus_console.cluster import probes
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.order import DECIDED, FACT_OF, carrier, spelt

#: The most parked keys, blocked keys and messages of one key that a page shows.
KEYS = 200
MESSAGES = 100
#: Blocked keys are found among so many of the newest failed attempts of the last hour.
FAILURES = 1_000
HOUR_MS = 3_600_000

_DECISIONS = tuple(FACT_OF.values())


@dataclass(frozen=True)
class ParkedKey:
    """A key that was set aside, and why."""

    key: str
    partition: int
    position: str
    messages: int
    record: DeadRecord
    #: The same key is parked in another partition as well.
    elsewhere: bool = False

    @property
    def told(self) -> str:
        return spelt(self.key)

    @property
    def handle(self) -> str:
        """What names it in a form: itself, or the position of its head where a form would change it, or not it alone is
        so named."""
        plain = self.key.isprintable() and self.key == self.key.strip()
        return self.key if plain and not self.elsewhere else self.position

    @property
    def reason(self) -> str:
        """The error without its traceback."""
        return self.record.error.partition("\n")[0]


@dataclass(frozen=True)
class BlockedKey:
    """A key whose head has failed and is tried again."""

    key: str
    message_id: str
    source: str
    attempt: int
    error: str
    due_ms: int


@dataclass
class OrderStep:
    """One message of a key, and what became of it in this subscription."""

    message: LedgerMessage
    state: str = "waiting"
    #: Its attempts and, among them, what people decided about it.
    events: list[LedgerEvent] = field(default_factory=list)
    #: When it is tried again; 0 when that is not known.
    due_ms: int = 0

    @property
    def settled(self) -> bool:
        return self.state in FINAL

    @property
    def attempts(self) -> list[LedgerEvent]:
        return [event for event in self.events if not decided(event)]

    @property
    def told(self) -> list[tuple[bool, LedgerEvent]]:
        """All of it in order of time, each with whether a person decided it."""
        return [(decided(event), event) for event in self.events]


def decided(event: LedgerEvent) -> bool:
    """Whether a person decided so about a parked key, instead of a handler's attempt."""
    return event.kind in _DECISIONS and event.detail.startswith(DECIDED)


@dataclass(frozen=True)
class KeyView:
    """One key in this subscription, its newest messages in the order of publishing."""

    key: str
    partition: int
    owner: Owned | None
    parked: ParkedKey | None
    steps: list[OrderStep]
    more: bool

    @property
    def head(self) -> OrderStep | None:
        """The first message that is not through: what the others wait for."""
        return next((step for step in self.steps if not step.settled), None)

    @property
    def waiting(self) -> int:
        return sum(not step.settled for step in self.steps)

    @property
    def state(self) -> str:
        if self.parked is not None:
            return "parked"
        head = self.head
        if head is None:
            return "settled" if self.steps else "unknown"
        return "blocked" if head.state == "retrying" else "waiting"


@dataclass(frozen=True)
class OrderPage:
    """All the page shows; ``trouble`` says why the store's part is missing."""

    partitions: list[Owned]
    parked: list[ParkedKey]
    blocked: list[BlockedKey]
    one: KeyView | None
    trouble: str

    @property
    def ownerless(self) -> int:
        return sum(not owned.consumer for owned in self.partitions)

    @property
    def owners(self) -> int:
        return len({owned.consumer for owned in self.partitions if owned.consumer})


def partitions(row: Subscription) -> tuple[list[Owned], str]:
    """The partition table, or why there is none."""
    if ill := probes.obstacle():
        return [], ill
    try:
        keeper = carrier(row)
        return (keeper.owners(row.topic.name, row.group) if keeper else []), ""
    except GroupLost:
        return [], "The store does not know this subscription; the keeper makes it anew at its last checkpoint."
    except UNANSWERED as error:
        return [], f"The store cannot be asked: {error.what}"


def build(row: Subscription, key: str, now_ms: int) -> OrderPage:
    """The page of ``row``, with the sequence of ``key`` when one is given."""
    table, trouble = partitions(row)
    parked = [] if trouble else parked_keys(row)
    one = key_view(row, key, table, parked) if key else None
    return OrderPage(table, parked, _blocked(row, now_ms), one, trouble)


def parked_keys(row: Subscription, key: str | None = None) -> list[ParkedKey]:
    """The first of them, or this one in each partition where it is. Raises ``Unavailable`` and ``GroupLost``."""
    keeper = carrier(row)
    if keeper is None:
        return []
    where = (row.topic.name, row.group)
    found = keeper.parked(*where, KEYS) if key is None else keeper.parked(*where, key=key)
    times = Counter(each.key for each in found)
    return [_parked(each, elsewhere=times[each.key] > 1) for each in found]


def _parked(each: Parked, *, elsewhere: bool) -> ParkedKey:
    record = dead.legible(each.record)
    return ParkedKey(each.key, each.partition, each.position, each.messages, record, elsewhere)


def key_view(row: Subscription, key: str, table: Sequence[Owned], parked: Sequence[ParkedKey]) -> KeyView:
    """What is known of one key: from the ledger what happened, from the store what waits."""
    newest = list(
        LedgerMessage.objects.filter(topic=row.topic.name, key=key).order_by("-published_ms", "-pk")[: MESSAGES + 1]
    )
    steps = [OrderStep(message) for message in reversed(newest[:MESSAGES])]
    aside = next((each for each in parked if each.key == key), None)
    if aside is None and len(parked) >= KEYS:
        # There may be more than are listed.
        aside = next(iter(parked_keys(row, key)), None)
    _tell(steps, row, is_parked=aside is not None)
    partition = partition_of(key, "", row.topic.partitions)
    owner = next((owned for owned in table if owned.partition == partition), None)
    return KeyView(key, partition, owner, aside, steps, len(newest) > MESSAGES)


def _tell(steps: Sequence[OrderStep], row: Subscription, *, is_parked: bool) -> None:
    """Fill in what became of each."""
    by_id: dict[str, list[OrderStep]] = {}
    for step in steps:
        by_id.setdefault(step.message.message_id, []).append(step)
    events = LedgerEvent.objects.filter(message_id__in=list(by_id), topic=row.topic.name, subscription=row.group)
    for event in events.order_by("at_ms", "pk"):
        for step in by_id[event.message_id]:
            if event.source in (None, step.message.source):
                _add(step, event, is_parked=is_parked)


def _add(step: OrderStep, event: LedgerEvent, *, is_parked: bool) -> None:
    if decided(event) or (event.kind in ATTEMPTED and (event.error or event.kind == "settled")):
        step.events.append(event)
    if event.kind in FINAL:
        step.state = "settled" if event.kind == "deduplicated" else event.kind
    elif event.kind == "retried" and not step.settled:
        step.state, step.due_ms = "retrying", event.due_ms
    elif event.kind == "parked" and not step.settled:
        # The store knows whether its key still is; the ledger only that it was.
        step.state = "parked" if is_parked else "waiting"


def _blocked(row: Subscription, now_ms: int) -> list[BlockedKey]:
    """Keys whose head failed in the last hour and is not through yet."""
    failures = LedgerEvent.objects.filter(
        topic=row.topic.name, subscription=row.group, kind="retried", at_ms__gte=now_ms - HOUR_MS
    ).order_by("-at_ms")[:FAILURES]
    newest: dict[tuple[str, str | None], LedgerEvent] = {}
    for event in failures:
        newest.setdefault((event.message_id, event.source), event)
    ids = {message_id for message_id, _ in newest}
    through = LedgerEvent.objects.filter(
        message_id__in=ids,
        topic=row.topic.name,
        subscription=row.group,
        kind__in=(*FINAL, "parked", "released"),
    ).values_list("message_id", "source", "at_ms")
    for message_id, source, at_ms in through:
        # What was told before sources were, and what follows it, may be of one message.
        for each in {(message_id, source), (message_id, None)} & newest.keys():
            if newest[each].at_ms <= at_ms:
                del newest[each]
    messages = LedgerMessage.objects.filter(message_id__in=ids, topic=row.topic.name).exclude(key="")
    found = [
        BlockedKey(message.key, message.message_id, message.source, failed.attempt, failed.error, failed.due_ms)
        for message in messages
        if (failed := newest.get((message.message_id, message.source)) or newest.get((message.message_id, None)))
    ]
    return sorted(found, key=lambda each: each.due_ms)[:KEYS]
