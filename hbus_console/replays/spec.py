"""What to replay: which messages of which topic, and into what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.http import QueryDict

from engine.bus.filters import MessageFilter, compile_filter
from engine.bus.message import Message
from engine.core.clock import from_rfc3339, to_datetime
from engine.core.errors import BadInput
from engine.core.numbers import whole
from engine.pipeline.lake.errors import LakeDamaged
from hbus_console.access.acts import Act
from hbus_console.access.permissions import Actor, allows, require
from hbus_console.messages.feature import PAYLOAD_READ, PAYLOAD_REVEAL
from hbus_console.messages.models import LedgerMessage
from hbus_console.pipelines.replaying import reach_of
from hbus_console.publishing.feature import PUBLISH
from hbus_console.replays.feature import REPLAY
from hbus_console.replays.masked import touched
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.leaving import require_call, require_move, require_return
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.wiring import bus

#: Where a replay may begin and end, and what it may look for.
FIELDS = ("topic", "read_from", "from", "to", "after", "until", "key", "filter", "into_group", "into_topic")
#: What an address calls them where that differs: there ``from`` and ``to`` are the pages' time range.
IN_ADDRESS = {"from": "starting", "to": "ending"}
_LONGEST = 2_000
#: What ``read_from`` says where it is not the topic itself.
ARCHIVE = "archive"
#: Of what a refusal repeats.
_SHOWN = 80


@dataclass(frozen=True)
class Selection:
    """A checked spec. Times are epoch milliseconds; 0 leaves that end open. What is read from the archive ends before
    ``to_ms``, so that spans which follow each other share nothing."""

    topic: str
    from_ms: int = 0
    to_ms: int = 0
    #: Positions: what lies after the first, up to and with the second.
    after: str = ""
    until: str = ""
    key: str = ""
    filter: str = ""
    into_group: str = ""
    into_topic: str = ""
    #: :data:`ARCHIVE`; empty: the topic itself.
    read_from: str = ""

    def as_spec(self) -> dict[str, Any]:
        """As an operation keeps it."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def words(self) -> str:
        """Where it goes."""
        return f"into {self.into_group}" if self.into_group else f"into topic {self.into_topic}"


def from_address(query: QueryDict) -> dict[str, str]:
    """Every field as an address gives it, empty where it does not."""
    return {name: str(query.get(IN_ADDRESS.get(name, name), "")).strip() for name in FIELDS}


def as_address(spec: Mapping[str, Any]) -> dict[str, str]:
    """What :func:`from_address` reads; an open end stands there as an empty one."""
    filled = {IN_ADDRESS.get(name, name): str(spec[name]) for name in FIELDS if spec.get(name)}
    return {**dict.fromkeys(IN_ADDRESS.values(), ""), **filled}


class Chosen:
    """Whether a message is one of those selected. A payload that ``actor`` is shown nothing of has no fields here."""

    def __init__(self, actor: Actor, selection: Selection) -> None:
        self._selection = selection
        topic = Topic.objects.filter(name=selection.topic).first()
        self._hides = None if allows(actor, PAYLOAD_REVEAL, selection.topic) else MaskingRules.of(topic).hide_whole
        self._filter: MessageFilter | None = compile_filter(selection.filter) if selection.filter else None

    def __call__(self, message: Message) -> bool:
        wanted = self._selection
        if message.hbustarget and message.hbustarget != wanted.into_group:
            # A copy that somebody made for another subscription alone.
            return False
        if wanted.key and message.partitionkey != wanted.key:
            return False
        return self._filter is None or self._filter.matches(message, self._hides)


def read(actor: Actor, spec: Mapping[str, Any], now_ms: int) -> Selection:
    """The spec, checked whole: what it names exists, and ``actor`` may do it. Raises ``BadInput`` or ``Forbidden``.

    An open end becomes now: what comes later, the copies among it, is not replayed.
    """
    given = {name: _text(spec, name) for name in spec}
    topic = _topic(actor, REPLAY, given.get("topic", ""), "topic")
    _check_target(actor, topic, given)
    selection = _range(actor, topic, given, now_ms)
    shows_older(actor, selection)
    return selection


def read_range(actor: Actor, spec: Mapping[str, Any], now_ms: int) -> Selection:
    """Likewise without a target: to look only, for whoever may read payloads."""
    given = {name: _text(spec, name) for name in spec if not name.startswith("into_")}
    topic = _topic(actor, PAYLOAD_READ, given.get("topic", ""), "topic")
    return _range(actor, topic, given, now_ms)


def _range(actor: Actor, topic: Topic, given: Mapping[str, str], now_ms: int) -> Selection:
    read_from = _read_from(topic, given)
    if not read_from and not bus.transport(topic.transport).capabilities.browse:
        raise BadInput(
            f"{topic.name} lies on {bus.transport(topic.transport).name}, which cannot be read back.",
            remedy="Replay from a topic on Redis Streams, or from the archive.",
            field="spec.topic",
        )
    to_ms = _instant(given, "to")
    after, until = _position(topic, given, "after"), _position(topic, given, "until")
    last_ms = _last_ms(topic, after, until)
    selection = Selection(
        topic=topic.name,
        from_ms=_instant(given, "from"),
        to_ms=min(to_ms or now_ms, now_ms, last_ms or now_ms),
        after=after,
        until=until,
        key=given.get("key", ""),
        filter=given.get("filter", ""),
        into_group=given.get("into_group", ""),
        into_topic=given.get("into_topic", ""),
        read_from=read_from,
    )
    if selection.from_ms and selection.from_ms >= selection.to_ms:
        raise BadInput("The range is empty.", remedy="Let it begin before it ends.", field="spec.from")
    _check_filter(actor, topic, selection.filter)
    return selection


def _read_from(topic: Topic, given: Mapping[str, str]) -> str:
    """Empty for the topic itself. Raises ``BadInput`` where the archive has nothing of it, or cannot tell."""
    text = given.get("read_from", "")
    if text in ("", "topic"):
        return ""
    if text != ARCHIVE:
        raise BadInput(
            f"{text[:_SHOWN]!r} is nothing to read from.", remedy="Name topic or archive.", field="spec.read_from"
        )
    for name in ("after", "until"):
        if given.get(name):
            raise BadInput(
                "What is read from the archive is chosen by time.",
                remedy="Leave it empty, and name the instants where it begins and ends.",
                field=f"spec.{name}",
            )
    try:
        reach = reach_of(topic.name)
    except LakeDamaged as error:
        raise BadInput(error.what, remedy=error.remedy, field="spec.read_from") from error
    if reach is None:
        raise BadInput(
            f"The archive has nothing of {topic.name}.",
            remedy="Replay what the topic itself holds.",
            field="spec.read_from",
        )
    return ARCHIVE


def _last_ms(topic: Topic, after: str, until: str) -> int:
    """When the last message of the range was stored: should retention take that one on the way, the range ends there
    all the same.
    """
    if not until:
        return 0
    admin = bus.admin(topic.transport)
    last = admin.read(topic.name, until)
    if last is None:
        raise BadInput(
            f"{topic.name} does not hold {until!r} (any more), where it is to end.",
            remedy="Name a later message, or the instant where it ends.",
            field="spec.until",
        )
    first = admin.read(topic.name, after) if after else None
    if until == after or (first is not None and first.at_ms > last.at_ms):
        raise BadInput("The range is empty.", remedy="Let it begin before it ends.", field="spec.until")
    return last.at_ms


def stored(spec: Mapping[str, Any]) -> Selection:
    """A spec as :meth:`Selection.as_spec` gave it."""
    return Selection(**spec)


def require_still(actor: Actor, wanted: Selection) -> bool:
    """Ask again for every right that :func:`read` asked for, as rights and masks are now. Raises as it does.

    Returns whether the copies show something that the topic masks.
    """
    topic = _topic(actor, REPLAY, wanted.topic, "topic")
    _check_filter(actor, topic, wanted.filter)
    older = shows_older(actor, wanted)
    if not wanted.into_topic:
        return require_call(actor, topic, wanted.into_group) or older
    return require_move(actor, topic, _topic(actor, PUBLISH, wanted.into_topic, "into_topic")) or older


def shows_older(actor: Actor, wanted: Selection) -> bool:
    """Whether the archive has messages of the range that are older than the topic: one of its name held them, whose
    masks nobody knows any more. Raises ``Forbidden`` unless ``actor`` may reveal them then, and ``LakeDamaged``.
    """
    reach = reach_of(wanted.topic) if wanted.read_from else None
    if reach is None:
        return False
    topic = _topic(actor, REPLAY, wanted.topic, "topic")
    return require_return(actor, topic, to_datetime(max(wanted.from_ms, reach.first_ms)))


def _check_target(actor: Actor, topic: Topic, given: Mapping[str, str]) -> None:
    group, target = given.get("into_group", ""), given.get("into_topic", "")
    if bool(group) == bool(target):
        raise BadInput(
            "A replay goes into a subscription of the topic, or into another topic.",
            remedy="Choose one of the two as its target.",
            field="spec.into_group",
        )
    if group and not Subscription.objects.filter(topic=topic, group=group).exists():
        raise BadInput(
            f"{group!r} is not subscribed to {topic.name}.", remedy="Name a subscription.", field="spec.into_group"
        )
    if group:
        require_call(actor, topic, group)
    if target:
        into = _topic(actor, PUBLISH, target, "into_topic")
        if into.pk == topic.pk:
            raise BadInput(
                "A topic is not replayed into itself.", remedy="Name a subscription.", field="spec.into_topic"
            )
        require_move(actor, topic, into)


def _check_filter(actor: Actor, topic: Topic, text: str) -> None:
    """Whoever may ask whether a hidden value is so may find out what it is."""
    if not text:
        return
    try:
        asks = touched(topic, text)
    except BadInput as error:
        raise BadInput(error.what, remedy=error.remedy, field="spec.filter") from error
    if asks:
        require(actor, PAYLOAD_REVEAL, topic.name)


def _topic(actor: Actor, act: Act, name: str, field: str) -> Topic:
    """The topic. The right is asked first, so a refusal does not tell whether it exists."""
    if name:
        require(actor, act, name)
    found = Topic.objects.filter(name=name).first()
    if found is None:
        raise BadInput(f"There is no topic {name!r}.", remedy="Name one that is there.", field=f"spec.{field}")
    return found


def _position(topic: Topic, given: Mapping[str, str], name: str) -> str:
    """Where the message of that id lies; what is no id is a position, or ``BadInput`` is raised."""
    text = given.get(name, "")
    if not text:
        return ""
    rows = LedgerMessage.objects.filter(topic=topic.name, message_id=text).exclude(position="").order_by()
    found = list(rows.values_list("position", flat=True)[:2])
    if len(found) > 1:
        raise BadInput(
            f"Several sources have published a message {text!r}.",
            remedy="Name the position of the one you mean.",
            field=f"spec.{name}",
        )
    if found:
        return found[0]
    admin = bus.admin(topic.transport)
    try:
        admin.browse(topic.name, after=text, limit=1) if name == "after" else admin.read(topic.name, text)
    except BadInput as error:
        raise BadInput(
            f"{text[:_SHOWN]!r} is neither the id of a known message of {topic.name} nor a position in its log.",
            remedy="Take one of them from the page of the message.",
            field=f"spec.{name}",
        ) from error
    return text


def _instant(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, "")
    if not text:
        return 0
    moment = whole(text)
    if moment is not None and len(text) < 16:
        return moment
    try:
        return from_rfc3339(text)
    except ValueError as error:
        raise BadInput(
            f"{text!r} is no instant.", remedy="Write 2026-11-21T08:00:00Z.", field=f"spec.{name}"
        ) from error


def _text(spec: Mapping[str, Any], name: str) -> str:
    value = spec[name]
    if name not in FIELDS:
        raise BadInput(f"{name!r} is no part of a replay.", remedy=f"Use {', '.join(FIELDS)}.", field=f"spec.{name}")
    if not isinstance(value, str) or len(value) > _LONGEST or "\x00" in value:
        raise BadInput(f"{name} is no text.", remedy=f"Send up to {_LONGEST:,} characters.", field=f"spec.{name}")
    return value.strip()
