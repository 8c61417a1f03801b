"""The order of a subscription: its partitions and owners, keys that wait, and one key's messages in sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from django.db.models import QuerySet

from engine.bus import dead
from engine.bus.dead import DeadRecord
from engine.bus.errors import UNANSWERED, GroupLost
from engine.bus.fact_kinds import ATTEMPTED, FINAL
from engine.bus.partitions import Owned, Parked, partition_of
from hbus_console.cluster import probes
from hbus_console.messages.became import meant_for_one
from hbus_console.messages.checking import SKEW_MS
from hbus_console.messages.models import FAILED, LedgerEvent, LedgerMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.order import DECIDED, FACT_OF, carrier, spelt
from hbus_console.topics.handler_errors import told_error

#: The most parked keys, blocked keys and messages of one key that a page shows.
KEYS = 200
MESSAGES = 100
#: Blocked keys are found among so many of the newest failed attempts of the last hour.
FAILURES = 1_000
#: The head of a key is looked for among so many messages before those shown, in two questions for each of so many.
MOST_BACK = 2_000
_CHUNK = 500
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
    #: The error without its traceback, as far as it may be told.
    reason: str = ""
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
    #: How many that are not through lie between the first of ``steps``, which then is the head, and the rest of them.
    between: int = 0
    #: Nothing that is through was found so far back: what the others wait for may be older still.
    beyond: bool = False

    @property
    def head(self) -> OrderStep | None:
        """The first message that is not through: what the others wait for; ``None`` also where it lies too far back."""
        return None if self.beyond else next((step for step in self.steps if not step.settled), None)

    @property
    def waiting(self) -> int:
        return self.between + sum(not step.settled for step in self.steps)

    @property
    def state(self) -> str:
        if self.parked is not None:
            return "parked"
        head = self.head
        if self.beyond:
            return "waiting"
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
    #: More keys are parked than are listed.
    more_parked: bool = False
    #: Not all failures of the hour were looked at, or not all keys are listed.
    more_blocked: bool = False

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


def build(row: Subscription, key: str, now_ms: int, *, told_from: int | None) -> OrderPage:
    """The page of ``row``, with the sequence of ``key`` when one is given. ``told_from``: see
    :func:`~hbus_console.topics.handler_errors.told_whole_from`; so it is of all here."""
    table, trouble = partitions(row)
    parked = [] if trouble else parked_keys(row, told_from=told_from)
    one = key_view(row, key, table, parked, told_from=told_from) if key else None
    blocked, more_blocked = _blocked(row, now_ms, told_from)
    return OrderPage(table, parked[:KEYS], blocked, one, trouble, len(parked) > KEYS, more_blocked)


def parked_keys(row: Subscription, key: str | None = None, *, told_from: int | None = None) -> list[ParkedKey]:
    """The first of them, one more than are listed if there are more; or this one in each partition where it is.

    Raises ``Unavailable`` and ``GroupLost``.
    """
    keeper = carrier(row)
    if keeper is None:
        return []
    where = (row.topic.name, row.group)
    found = keeper.parked(*where, KEYS + 1) if key is None else keeper.parked(*where, key=key)
    times = Counter(each.key for each in found)
    return [_parked(each, told_from, elsewhere=times[each.key] > 1) for each in found]


def _parked(each: Parked, told_from: int | None, *, elsewhere: bool) -> ParkedKey:
    record = dead.legible(each.record)
    reason = told_error(record.error.partition("\n")[0], record.died_ms, told_from)
    return ParkedKey(each.key, each.partition, each.position, each.messages, record, reason, elsewhere)


def key_view(
    row: Subscription,
    key: str,
    table: Sequence[Owned],
    parked: Sequence[ParkedKey],
    *,
    told_from: int | None = None,
) -> KeyView:
    """What is known of one key: from the ledger what happened, from the store what waits."""
    partition = partition_of(key, "", row.topic.partitions)
    owner = next((owned for owned in table if owned.partition == partition), None)
    rows = LedgerMessage.objects.filter(topic=row.topic.name, key=key).order_by("-published_ms", "-pk")
    newest = list(rows[: MESSAGES + 1])
    steps = [OrderStep(message) for message in reversed(_of_its(row, owner, newest[:MESSAGES]))]
    aside = next((each for each in parked if each.key == key), None)
    if aside is None and len(parked) >= KEYS:
        # There may be more than are listed.
        aside = next(iter(parked_keys(row, key, told_from=told_from)), None)
    _tell(steps, row, is_parked=aside is not None)
    more = len(newest) > MESSAGES
    older: list[OrderStep] = []
    beyond = False
    if more and not any(step.settled for step in steps):
        # Nothing that is shown is through: what holds it up lies further back.
        older, beyond = _before(row, owner, rows, is_parked=aside is not None)
    for step in (*older[-1:], *steps):
        for event in step.events:
            event.tell_error(told_from)
    view = KeyView(key, partition, owner, aside, [*older[-1:], *steps], more)
    return replace(view, between=max(0, len(older) - 1), beyond=beyond)


def _of_its(row: Subscription, owner: Owned | None, messages: Sequence[LedgerMessage]) -> list[LedgerMessage]:
    """Without the copies for other subscriptions, and without what lay there before this one and was never its own."""
    alone = meant_for_one(messages)
    since_ms = round(row.created_at.timestamp() * 1000)
    found = [each for each in messages if alone.get(each.identity, row.group) == row.group]
    before = {each.identity for each in found if each.published_ms < since_ms and _is_past(owner, each)}
    told = LedgerEvent.objects.filter(
        message_id__in={each[1] for each in before}, topic=row.topic.name, subscription=row.group
    )
    heard = set(told.values_list("message_id", flat=True)) if before else set()
    return [each for each in found if each.identity not in before or each.message_id in heard]


def _is_past(owner: Owned | None, message: LedgerMessage) -> bool:
    """Whether its partition has nothing unsettled that is as old, by the word of the store."""
    if owner is None or owner.unsettled is None:
        return False
    return owner.unsettled == 0 or (owner.oldest_ms is not None and message.published_ms < owner.oldest_ms - SKEW_MS)


def _before(
    row: Subscription, owner: Owned | None, rows: QuerySet[LedgerMessage], *, is_parked: bool
) -> tuple[list[OrderStep], bool]:
    """What is not through before the newest of ``rows``, the newest first, back to the first that is; and whether no
    such was found."""
    found: list[OrderStep] = []
    for start in range(MESSAGES, MESSAGES + MOST_BACK, _CHUNK):
        messages = list(rows[start : start + _CHUNK])
        steps = [OrderStep(message) for message in _of_its(row, owner, messages)]
        _tell(steps, row, is_parked=is_parked)
        for step in steps:
            if step.settled:
                return found, False
            found.append(step)
        if len(messages) < _CHUNK:
            return found, False
    return found, True


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


def _blocked(row: Subscription, now_ms: int, told_from: int | None) -> tuple[list[BlockedKey], bool]:
    """Keys whose head failed in the last hour and is not through yet; and whether there may be more of them."""
    last_hour = LedgerEvent.objects.filter(
        FAILED, topic=row.topic.name, subscription=row.group, kind="retried", at_ms__gte=now_ms - HOUR_MS
    ).order_by("-at_ms")[: FAILURES + 1]
    failures = list(last_hour)
    newest: dict[tuple[str, str | None], LedgerEvent] = {}
    for event in failures[:FAILURES]:
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
    for event in newest.values():
        event.tell_error(told_from)
    messages = LedgerMessage.objects.filter(message_id__in=ids, topic=row.topic.name).exclude(key="")
    found = [
        BlockedKey(message.key, message.message_id, message.source, failed.attempt, failed.shown_error, failed.due_ms)
        for message in messages
        if (failed := newest.get((message.message_id, message.source)) or newest.get((message.message_id, None)))
    ]
    return sorted(found, key=lambda each: each.due_ms)[:KEYS], len(failures) > FAILURES or len(found) > KEYS
