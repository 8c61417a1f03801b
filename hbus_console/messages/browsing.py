"""Looking into a topic's own log without consuming: the newest messages, or those with a certain payload field."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message
from engine.bus.transport import Stored
from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson
from hbus_console.access.permissions import Actor, require
from hbus_console.messages.feature import PAYLOAD_READ
from hbus_console.topics import lookup
from hbus_console.topics.field_paths import PATTERN, FieldPath, canonical
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, Payload, may_search, shown, unreadable
from hbus_console.wiring import bus

PAGE = 50
#: One search looks at no more messages, and takes no more seconds, than this; then it says so and can be continued.
MOST_SCANNED = 10_000
LONGEST_S = 2.0
_BROWSE = 500
_CONDITION = re.compile(rf"\s*({PATTERN})\s*(=|~)\s*(.*?)\s*", re.DOTALL)
_clock = SystemClock()


@dataclass(frozen=True)
class Seen:
    """One message as it lies in the log, its payload masked. ``message`` is ``None`` for an unreadable envelope."""

    position: str
    at_ms: int
    message: Message | None
    payload: Payload
    broken: str = ""


@dataclass(frozen=True)
class Condition:
    """A payload field and its value: ``=`` means equal, ``~`` contains (without regard to case)."""

    path: str
    operator: str
    wanted: str

    @classmethod
    def read(cls, text: str) -> Condition:
        """From ``room=DBL-SEA``, ``guest.nights=2``, ``rooms[0].code~dbl``, ``"first name"=Anna``.

        Raises ``BadInput``.
        """
        found = _CONDITION.fullmatch(text)
        if found is None or not found[3]:
            raise BadInput(
                f"{text[:60]!r} names no payload field and value.",
                remedy="Write field=value, with dots for what is nested: room.code=DBL-SEA; ~ instead of = contains.",
                field="field",
            )
        try:
            return cls(canonical(found[1]), found[2], found[3])
        except ValueError as error:
            raise BadInput(
                f"{found[1][:60]} has an escape that JSON does not know.",
                remedy='Write a name in quotes as JSON writes a text: "first name"=Anna.',
                field="field",
            ) from error

    def fits(self, value: Any) -> bool:
        """Whether ``value``, a JSON payload, has a matching field; lists match by any of their items."""
        return any(self._same(item) for item in FieldPath.parse(self.path).values(value))

    def _same(self, value: Any) -> bool:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if self.operator == "~":
            return self.wanted.lower() in text.lower()
        return text == self.wanted or (isinstance(value, float) and _number(self.wanted) == value)


@dataclass(frozen=True)
class Scan:
    """What a search of the log found, and how far it came: ``next_cursor`` continues it, empty when it is done."""

    entries: list[Seen]
    scanned: int
    stopped: str
    next_cursor: str
    #: The oldest instant that was looked at.
    back_to_ms: int | None = None


def peek(
    actor: Actor,
    name: str,
    *,
    cursor: str = "",
    start_ms: int | None = None,
    end_ms: int | None = None,
    size: int = PAGE,
    carrier: str = "",
) -> Scan:
    """The newest messages of a topic, or those after ``cursor``, as they lie in its log: those that were stored from
    ``start_ms`` on and before ``end_ms``. Nothing is consumed. ``carrier``: one that it moves away from.

    Raises ``UnknownTopic``, ``Forbidden``, ``BadInput`` for a transport that cannot be browsed, ``Unavailable``.
    """
    topic = _browsable(actor, name, carrier)
    transport = carrier or topic.transport
    page = bus.admin(transport).browse(name, after=cursor or _before(end_ms), limit=size, newest_first=True)
    rules = MaskingRules.of(topic)
    within = list(takewhile(lambda stored: start_ms is None or stored.at_ms >= start_ms, page.entries))
    entries = [_seen(stored, rules) for stored in within]
    begins = len(within) < len(page.entries)
    stopped = "the time range begins here" if begins else "" if page.next_position else "the log ends here"
    back_to = entries[-1].at_ms if entries else None
    return Scan(entries, len(entries), stopped, "" if begins else page.next_position, back_to)


def scan(
    actor: Actor,
    name: str,
    condition: Condition,
    *,
    cursor: str = "",
    start_ms: int | None = None,
    end_ms: int | None = None,
    size: int = PAGE,
    clock: Clock = _clock,
) -> Scan:
    """Look through a topic's log, newest first, for messages whose payload fits; bounded, and says where it stopped.

    A masked field cannot be searched by, for that would reveal it. Raises as :func:`peek`.
    """
    topic = _browsable(actor, name)
    rules = MaskingRules.of(topic)
    if not may_search(condition.path, rules):
        raise BadInput(
            f"{condition.path} is masked in {name}; searching by it would reveal it.",
            remedy="Search by another field, or by id, key or correlation.",
            field="field",
        )
    admin = bus.admin(topic.transport)
    until = clock.monotonic() + LONGEST_S
    after = cursor or _before(end_ms)
    matched: list[Seen] = []
    scanned, back_to = 0, None
    while True:
        page = admin.browse(name, after=after, limit=min(_BROWSE, MOST_SCANNED - scanned), newest_first=True)
        for stored in page.entries:
            if start_ms is not None and stored.at_ms < start_ms:
                return Scan(matched, scanned, "the time range begins here", "", back_to)
            scanned += 1
            back_to = stored.at_ms
            if _matches(stored, condition, rules):
                matched.append(_seen(stored, rules))
                if len(matched) == size:
                    return Scan(matched, scanned, f"{size} messages fit", stored.position, back_to)
        after = page.next_position
        if not after:
            return Scan(matched, scanned, "the log ends here", "", back_to)
        if scanned >= MOST_SCANNED:
            return Scan(matched, scanned, f"one search looks at {MOST_SCANNED:,} messages", after, back_to)
        if clock.monotonic() >= until:
            return Scan(matched, scanned, f"{LONGEST_S:g} seconds passed", after, back_to)


def _before(end_ms: int | None) -> str:
    """Where a log is read from, newest first, to find what was stored before that time."""
    # An instant that is read from is among what is read.
    return f"@{end_ms - 1}" if end_ms is not None else ""


def _browsable(actor: Actor, name: str, carrier: str = "") -> Topic:
    require(actor, PAYLOAD_READ, name)
    topic = lookup.topic(name)
    transport = bus.transport(carrier or topic.transport)
    if not transport.capabilities.browse:
        raise BadInput(
            f"{name} is carried by {transport.name}, which shows no message twice.",
            remedy="Search the ledger instead.",
            field="topic",
        )
    return topic


def _seen(stored: Stored, rules: MaskingRules) -> Seen:
    try:
        message = envelope.decode(stored.body)
    except MalformedEnvelope as error:
        payload, why = unreadable(stored.body, error, rules)
        return Seen(stored.position, stored.at_ms, None, payload, broken=why)
    return Seen(stored.position, stored.at_ms, message, shown(message, rules))


def _matches(stored: Stored, condition: Condition, rules: MaskingRules) -> bool:
    """What is hidden whole fits nothing: whoever may ask whether may find out what."""
    try:
        message = envelope.decode(stored.body)
        if message.data_base64 is not None:
            return False
        payload = message.json()
    except (MalformedEnvelope, NotJson):
        return False
    return condition.fits(payload) and not rules.hide_whole(payload, message.payload())


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
