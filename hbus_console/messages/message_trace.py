"""One message's whole life, gathered: ledger, dead letters, audit log, and the message itself where it still lies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Q, QuerySet

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message
from engine.core.clock import SystemClock
from engine.core.errors import HbusError, NotThere
from engine.core.ids import instant_of
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor, allows, visible_scopes
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import about
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence import freshness
from hbus_console.evidence.columns import texts
from hbus_console.messages.became import meant_for_one
from hbus_console.messages.by_event import off_index
from hbus_console.messages.feature import PAYLOAD_READ
from hbus_console.messages.gone import why_gone
from hbus_console.messages.models import (
    LONGEST_ID,
    LONGEST_SOURCE,
    NEVER_COME,
    LedgerEvent,
    LedgerMessage,
    LedgerStack,
)
from hbus_console.messages.sizes import tell_sizes
from hbus_console.topics.handler_errors import told_whole_from
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, Payload, shown, unreadable
from hbus_console.topics.scopes import topic_filter
from hbus_console.ui.formats import duration
from hbus_console.wiring import bus

_clock = SystemClock()
#: A message that is due is published within so long, and that is booked, unless something is wrong.
_LATE_MS = 10_000
#: A message with more events than this shows the first ones and says how many there are.
MOST_EVENTS = 500
#: How often what was redriven is followed when it dies again.
MOST_REDRIVES = 10
#: Effects, conversation and same-key neighbours shown; the lists link to a search for the rest.
MOST_EFFECTS = 20
MOST_NEIGHBOURS = 100
#: Evidence is booked about a second after it happened; later than this after an id was made, nothing is on its way.
YOUNG_MS = 60_000
#: Acts on a message that its timeline shows.
_ACTS = ("dead_letter.redrive", "dead_letter.edit", "dead_letter.discard", "payload.reveal")


class NotYet(NotThere):
    """The ledger has no such message, and would not have it yet."""


@dataclass
class Life:
    """Everything known about one message, as far as the reader may see it."""

    message_id: str
    topic_name: str
    #: ``None`` when the topic was deleted.
    topic: Topic | None
    #: ``None`` when the ledger has forgotten it and only a dead letter tells.
    entry: LedgerMessage | None
    events: list[LedgerEvent]
    more_events: int
    letters: list[DeadLetter]
    acts: list[AuditEntry]
    #: The envelope; ``None`` when it lies nowhere any more, and ``gone`` says why.
    envelope: Message | None
    gone: str
    payload: Payload | None
    #: What is hidden of the envelope that was found.
    rules: MaskingRules = field(default_factory=lambda: MaskingRules.of(None))
    cause: LedgerMessage | None = None
    effects: list[LedgerMessage] = field(default_factory=list)
    #: What happened to the copies that were redriven from it, by their id.
    copies: dict[str, list[LedgerEvent]] = field(default_factory=dict)
    #: Of those that died and were redriven again: as which, by their id.
    redriven_on: dict[str, str] = field(default_factory=dict)
    #: And of those that died, which somebody discarded, by their id.
    discarded_copies: set[str] = field(default_factory=set)
    #: The stack traces of its failed attempts, by their ids.
    stacks: dict[str, str] = field(default_factory=dict)
    #: The topic's subscriptions, also those that have not handled it yet.
    subscriptions: list[str] = field(default_factory=list)
    #: The only subscription that it is for, where it is a copy for one; empty: it is for all of its topic.
    target: str = ""
    #: Further topics, of those the reader may see, that have a message of this id; and further sources in this topic.
    other_topics: list[str] = field(default_factory=list)
    other_sources: list[str] = field(default_factory=list)

    @property
    def wanted(self) -> list[str]:
        """The subscriptions that are to handle it."""
        return [self.target] if self.target else self.subscriptions

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return self.entry.subject if self.entry else self.letters[0].subject

    @property
    def published_ms(self) -> int:
        """When its life begins."""
        if self.entry is not None:
            starts = [event.at_ms for event in self.events if event.kind == "delayed"]
            return min([self.entry.published_ms, *starts])
        return min(round(letter.first_failed_at.timestamp() * 1000) for letter in self.letters)

    @property
    def had(self) -> bool:
        """Whether a subscription has had it, or nobody ever will."""
        return self.will_not_come or any(event.subscription and event.kind not in NEVER_COME for event in self.events)

    @property
    def will_not_come(self) -> bool:
        """Whether it was lost or cancelled, and not accepted anew since."""
        told = [event.kind for event in self.events if event.kind in ("delayed", *NEVER_COME)]
        return bool(told) and told[-1] in NEVER_COME

    @property
    def waits(self) -> bool:
        """Whether it waits for its due time: what a subscription has had does not, whatever the ledger has missed."""
        return self.entry is not None and self.entry.waits and not self.had

    @property
    def refusal(self) -> LedgerEvent | None:
        """Why it was refused when it was due, where it still waits for that."""
        told = [event for event in self.events if event.kind in ("delayed", "due_refused")]
        return told[-1] if self.waits and told and told[-1].kind == "due_refused" else None

    @property
    def was_published(self) -> bool:
        """Whether it came into its topic: what was lost or cancelled before its time did not."""
        if self.entry is None or not self.entry.waits:
            return True
        return any(event.subscription and event.kind not in NEVER_COME for event in self.events)

    @property
    def waiting_letters(self) -> list[DeadLetter]:
        """Those that wait for a decision."""
        return [letter for letter in self.letters if letter.state == DeadLetter.State.DEAD]

    @property
    def settled_in(self) -> set[str]:
        """The subscriptions that have handled it: also those whose inbox knew it when it came again."""
        return {event.subscription for event in self.events if event.kind in ("settled", "deduplicated")} - {""}

    @property
    def skipped_in(self) -> set[str]:
        """The subscriptions in which a person settled it without its being handled."""
        return {event.subscription for event in self.events if event.kind == "skipped"}

    @property
    def expired_in(self) -> set[str]:
        """The subscriptions in which its time was over before it was handled."""
        return {event.subscription for event in self.events if event.kind == "expired"}

    @property
    def passed_in(self) -> set[str]:
        """The subscriptions that are done with it, as the store says, and nobody told how."""
        return {event.subscription for event in self.events if event.kind == "passed"}

    @property
    def lost_in(self) -> set[str]:
        """The subscriptions whose store no longer has it, and nobody told what became of it before."""
        return {event.subscription for event in self.events if event.kind == "lost"}

    @property
    def cancelled_in(self) -> set[str]:
        """The subscriptions that it was meant for when it was cancelled, before its time came."""
        return {event.subscription for event in self.events if event.kind == "cancelled"}

    @property
    def parked_in(self) -> set[str]:
        """The subscriptions in which it was set aside with its key, and nothing has happened to it since."""
        last = {event.subscription: event.kind for event in self.events if event.subscription}
        return {subscription for subscription, kind in last.items() if kind == "parked"}

    @property
    def key(self) -> str:
        return self.entry.key if self.entry else self.letters[0].key

    @property
    def correlation_id(self) -> str:
        return self.entry.correlation_id if self.entry else self.letters[0].correlation_id

    @property
    def source(self) -> str:
        return self.entry.source if self.entry else self.letters[0].source

    @property
    def position(self) -> str:
        return self.entry.position if self.entry else self.letters[0].position

    @property
    def type(self) -> str:
        if self.entry is not None:
            return self.entry.type
        return self.envelope.type if self.envelope else self.topic_name


def life(actor: Actor, message_id: str, topic_name: str = "", source: str = "") -> Life:
    """Gather it. Where several topics or sources have a message of that id and none is named, it is the newest one that
    ``actor`` may see. Raises ``NotThere`` when neither ledger nor dead letters know it, or ``actor`` may not see it;
    ``NotYet`` for an id so young that its evidence may still be on its way, or made since a keeper booked last.
    """
    seen = topic_filter(visible_scopes(actor))
    rows = LedgerMessage.objects.alias(its_topic=off_index("topic")).filter(seen, message_id=message_id)
    letters = list(DeadLetter.objects.filter(seen, message_id=message_id).order_by("died_at"))
    everybodys = {*rows.values_list("topic", "source").distinct(), *((each.topic, each.source) for each in letters)}
    known = {each for each in everybodys if topic_name in ("", each[0]) and source in ("", each[1])}
    wanted = rows.filter(its_topic=topic_name) if topic_name else rows
    wanted = wanted.filter(source=source) if source else wanted
    entry = wanted.order_by("-published_ms", "-pk").first()
    if entry is not None:
        topic_name, source = entry.topic, entry.source
    elif known:
        topic_name, source = next(place for each in reversed(letters) if (place := (each.topic, each.source)) in known)
    else:
        if settings.HBUS_LEDGER and (why := _not_yet(message_id)):
            raise NotYet(f"Message {message_id[:64]} is not yet in the ledger.", remedy=why, field="id")
        raise NotThere(
            f"The ledger has no message {message_id[:64]!r}.",
            remedy="It may never have existed, lie outside your scope, or be older than what the ledger keeps.",
            field="id",
        )
    letters = [letter for letter in letters if (letter.topic, letter.source) == (topic_name, source)]
    topic = Topic.objects.select_related("team").filter(name=topic_name).first()
    events = _events_of({message_id}, topic_name, source)
    first = list(events[: MOST_EVENTS + 1])
    found = Life(
        message_id=message_id,
        topic_name=topic_name,
        topic=topic,
        entry=entry,
        events=first[:MOST_EVENTS],
        more_events=events.count() - MOST_EVENTS if len(first) > MOST_EVENTS else 0,
        letters=letters,
        acts=_acts(actor, (entry or letters[0]).subject, source, letters),
        envelope=None,
        gone="",
        payload=None,
        other_topics=sorted({topic for topic, _ in everybodys} - {topic_name}),
        other_sources=sorted({whose for topic, whose in everybodys if topic == topic_name} - {source}),
    )
    _read_envelope(actor, found)
    found.target = _target(found)
    _relate(found, seen)
    tell_sizes(each for each in (found.entry, found.cause, *found.effects) if each is not None)
    told_from = told_whole_from(actor, topic_name, topic)
    for event in found.events:
        event.tell_error(told_from)
    for letter in letters:
        letter.tell_errors(told_from)
    had = {event.stack_id for event in found.events if event.stack_id}
    found.stacks = dict(LedgerStack.objects.filter(stack_id__in=had).values_list("stack_id", "text")) if had else {}
    if topic is not None:
        found.subscriptions = sorted(topic.subscriptions.values_list("group", flat=True))
    return found


def _target(found: Life) -> str:
    """By its envelope or, where that lies nowhere any more, by what it was made of."""
    if found.envelope is not None:
        return found.envelope.hbustarget
    return meant_for_one([found.entry]).get(found.entry.identity, "") if found.entry is not None else ""


def _not_yet(message_id: str) -> str:
    """Why its evidence may still come; empty when none does."""
    made_ms, now_ms = instant_of(message_id), _clock.now_ms()
    # An id may come from a host whose clock is a little ahead.
    if made_ms is None or made_ms - now_ms >= YOUNG_MS:
        return ""
    booked = freshness.facts(now_ms)
    if booked.of_ms and not booked.known and made_ms > booked.of_ms - YOUNG_MS:
        return f"Ask again once a keeper runs: what happened is {booked.why}."
    young = now_ms - made_ms < YOUNG_MS
    return "Ask again in a moment: what happens is booked about a second later." if young else ""


def conversation(actor: Actor, correlation_id: str) -> list[LedgerMessage]:
    """The messages of one correlation id, in order of time; at most :data:`MOST_NEIGHBOURS` and one more."""
    if not correlation_id:
        return []
    return _neighbours(actor, correlation_id=correlation_id)


def same_key(actor: Actor, topic: str, key: str) -> list[LedgerMessage]:
    """The messages of one key in one topic, in order of time; at most :data:`MOST_NEIGHBOURS` and one more."""
    return _neighbours(actor, topic=topic, key=key) if key else []


def envelope_of(found: Life, actor: Actor, revealed: Sequence[str] = ()) -> Payload | None:
    """The payload with ``revealed`` fields in clear; the caller has asked and audited."""
    if found.envelope is None or not allows(actor, PAYLOAD_READ, found.topic_name):
        return None
    return shown(found.envelope, found.rules, revealed)


def _neighbours(actor: Actor, **same: str) -> list[LedgerMessage]:
    rows = LedgerMessage.objects.filter(topic_filter(visible_scopes(actor)), **same)
    return list(rows.order_by("published_ms", "pk")[: MOST_NEIGHBOURS + 1])


def _events_of(ids: Collection[str], topic: str, source: str) -> QuerySet[LedgerEvent]:
    own = Q(source=source) | Q(source=None)
    return LedgerEvent.objects.filter(own, message_id__in=ids, topic=topic).order_by("at_ms", "pk")


def _acts(actor: Actor, message: Subject, source: str, letters: Sequence[DeadLetter]) -> list[AuditEntry]:
    if not allows(actor, AUDIT_READ, message.namespace):
        return []
    entries = AuditEntry.objects.filter(namespace_q(actor, "namespace"), about(message), action__in=_ACTS)
    own = {letter.pk for letter in letters}
    found = []
    for entry in entries.order_by("seq")[:MOST_EVENTS]:
        said = entry.after or {}
        # Others may have a message of this id in the topic. What was revealed before sources were recorded says none.
        if said.get("letter") in own or (entry.action == "payload.reveal" and said.get("source", source) == source):
            found.append(entry)
    return found


def _read_envelope(actor: Actor, found: Life) -> None:
    """The message from its topic's log or, when retention took it there, from a dead letter."""
    body, found.gone = _from_log(found)
    found.rules = MaskingRules.of(found.topic)
    if body is None and found.letters:
        letter = found.letters[0]
        body, found.rules = bytes(letter.body), MaskingRules.at(found.topic, letter.died_at)
    if body is None:
        return
    try:
        found.envelope = envelope.decode(body)
    except MalformedEnvelope as error:
        _, why = unreadable(body, error, found.rules)
        found.gone = f"The envelope is unreadable: {why}"
        return
    lies = _kept(found.envelope.id, LONGEST_ID), _kept(found.envelope.source, LONGEST_SOURCE)
    if lies != (found.message_id, found.source):
        # A position is a store's own: where the topic has been moved to, another message may have the same.
        found.envelope, found.gone = None, "Another message lies where it was."
        return
    found.gone = ""
    found.payload = envelope_of(found, actor)


def _kept(text: str, limit: int) -> str:
    """As the ledger keeps it."""
    return next(iter(texts(text, 1, limit)))


def _from_log(found: Life) -> tuple[bytes | None, str]:
    """The envelope's bytes, or why there are none."""
    if found.topic is None or (elsewhere := _not_in_its_log(found)):
        gone = f"Topic {found.topic_name} was deleted, and its messages with it."
        return None, gone if found.topic is None else elsewhere
    try:
        transport = bus.transport(found.topic.transport)
        if not transport.capabilities.browse:
            return None, f"{found.topic_name} is carried by {transport.name}, which shows no message twice."
        if not found.position:
            return None, "It was published by way of a transport that shows no message twice."
        stored = transport.admin.read(found.topic_name, found.position)
        if stored is not None:
            return stored.body, ""
        return None, f"{why_gone(transport.admin, found.entry)}; what happened to the message is still known."
    except HbusError as error:
        return None, f"The payload cannot be read now: {error.what}"


def waits_for(entry: LedgerMessage, refusal: LedgerEvent | None, now_ms: int) -> str:
    """What a message waits for that was accepted for later, as sentences."""
    if refusal is not None:
        late = duration(max(0, now_ms - entry.due_ms) * 1000)
        return f"It was due {late} ago and is refused: {refusal.error} It is kept, and tried again until it is taken."
    if entry.due_ms > now_ms - _LATE_MS:
        return "It waits for its due time."
    late = duration((now_ms - entry.due_ms) * 1000)
    return f"It was due {late} ago and is not published yet, or nobody has told so. It is kept, and tried again."


def _not_in_its_log(found: Life) -> str:
    """Why its topic's log need not be asked."""
    if found.waits and found.entry is not None:
        return f"{waits_for(found.entry, found.refusal, _clock.now_ms())} Its payload is with the delay path."
    if found.cancelled_in and not found.was_published:
        return "It was cancelled while it waited for its due time, and its payload with it."
    if any(event.kind == "lost" for event in found.events):
        return "It was lost with what its store held; what happened to it before is still known."
    return ""


def _relate(found: Life, seen: Q) -> None:
    causation = found.entry.causation_id if found.entry else (found.envelope.causationid if found.envelope else "")
    rows = LedgerMessage.objects.filter(seen)
    if causation:
        causes = rows.alias(its_topic=off_index("topic")).filter(message_id=causation)
        replay = found.envelope.hbusreplay if found.envelope is not None else ""
        if replay in ("redrive", "replay"):
            # A copy has the source of its original.
            causes = causes.filter(source=found.source)
        if replay == "redrive":
            # A dead letter is redriven into its own topic.
            causes = causes.filter(its_topic=found.topic_name)
        found.cause = causes.order_by("-published_ms", "-pk").first()
    found.effects = list(rows.filter(causation_id=found.message_id).order_by("published_ms", "pk")[: MOST_EFFECTS + 1])
    copies = {letter.redriven_as for letter in found.letters if letter.redriven_as}
    # A copy is for one subscription alone, and so dies once at most.
    for _ in range(MOST_REDRIVES):
        for event in _events_of(copies, found.topic_name, found.source)[:MOST_EVENTS]:
            found.copies.setdefault(event.message_id, []).append(event)
        died = {id_ for id_ in copies if any(event.kind == "dead" for event in found.copies.get(id_, ()))}
        if not died:
            break
        letters = DeadLetter.objects.filter(topic=found.topic_name, source=found.source, message_id__in=died)
        found.discarded_copies |= {
            letter
            for letter, state in letters.values_list("message_id", "state")
            if state == DeadLetter.State.DISCARDED
        }
        further = dict(letters.exclude(redriven_as="").values_list("message_id", "redriven_as"))
        found.redriven_on |= further
        copies = set(further.values())
