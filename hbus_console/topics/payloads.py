"""A message's payload as a screen, an answer or an export may show it: masked as its topic says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message
from engine.core.json_values import holds_more_than
from engine.core.strict_json import NotJson, read_json, repeats_a_name
from hbus_console.topics.field_paths import FieldPath
from hbus_console.topics.masking import hides, is_masked, mask, masked

if TYPE_CHECKING:
    from hbus_console.topics.models import Topic

#: How many values one publish over HTTP may hold: a thousand messages of five hundred. JSON of more is shown as its
#: text, or hidden whole.
MOST_VALUES = 500_000
#: Why a body is none, to who may not be told where in it.
NO_ENVELOPE = "It is no CloudEvents 1.0 envelope."


@dataclass(frozen=True)
class Payload:
    """``form`` is ``json``, ``text``, ``bytes`` or ``none``; ``value`` JSON types, text, or a sentence about bytes."""

    form: str
    value: Any
    #: Bytes; ``None`` where something is hidden, for it would tell what is.
    size: int | None
    #: What is hidden here: field paths, or ``*`` for the whole payload.
    hidden: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class MaskingRules:
    """What one topic hides."""

    masked_fields: tuple[str, ...]
    classification: str
    #: Hide what has no fields to tell apart: see :meth:`opaque`.
    opaque_hidden: bool

    @classmethod
    def of(cls, topic: Topic | None) -> MaskingRules:
        """A topic that is gone has no rules any more, so everything is hidden."""
        if topic is None:
            return cls(("*",), "unknown", opaque_hidden=True)
        # The process of a query masks by rules that it was given, and does without Django.
        from hbus_console.topics.models import Topic as Known

        guarded = topic.classification in (Known.Classification.CONFIDENTIAL, Known.Classification.PERSONAL)
        return cls(tuple(topic.masked_fields), topic.classification, opaque_hidden=guarded or bool(topic.masked_fields))

    @classmethod
    def at(cls, topic: Topic | None, moment: datetime) -> MaskingRules:
        """The rules for what was there at ``moment``: a topic made later only has the name of the one it lay in."""
        return cls.of(topic if topic is not None and topic.created_at <= moment else None)

    @property
    def hide_something(self) -> bool:
        """Whether any payload could hold what these hide."""
        return self.opaque_hidden or bool(self.masked_fields)

    def opaque(self, value: Any) -> bool:
        """Whether JSON is hidden whole, for it has no fields at all or none where these hide one.

        Text and numbers have none, be they the payload, an item of it, or where an object should be.
        """
        if "*" in self.masked_fields:
            return True
        return self.opaque_hidden and (
            _bare(value) or any(FieldPath.parse(name).blocked(value) for name in self.masked_fields)
        )

    def hide_whole(self, value: Any, text: bytes) -> bool:
        """Whether a payload is hidden whole: ``value``, JSON that was read from ``text``.

        Whoever searches or filters by what is in it finds none that is, or would be told what it holds.
        """
        # Of two members of one name the one that no reader here sees may hold what is masked.
        return self.opaque(value) or (self.hide_something and repeats_a_name(text))

    def keep(self, others: MaskingRules) -> bool:
        """Whether all that ``others`` hide is hidden by these too, whatever the payload."""
        if others.opaque_hidden and not self.opaque_hidden:
            return False
        return "*" in self.masked_fields or all(hides(self.masked_fields, field) for field in others.masked_fields)


def shown(message: Message, rules: MaskingRules, revealed: Sequence[str] = ()) -> Payload:
    """The payload with what ``rules`` hide replaced, but for the ``revealed`` fields (``*``: everything)."""
    return shown_body(message.payload(), rules, revealed, binary=message.data_base64 is not None)


def shown_body(body: bytes, rules: MaskingRules, revealed: Sequence[str] = (), *, binary: bool = False) -> Payload:
    """Likewise of the bytes of one: JSON text, or whatever they are where it is ``binary``."""
    size = len(body)
    if not size:
        return Payload("none", None, 0)
    everything = "*" in revealed
    try:
        # What holds more took whoever shows it seconds to read, and fits on no page.
        opaque = binary or holds_more_than(MOST_VALUES, body)
        value = None if opaque else read_json(body)
    except NotJson:
        # Any writer may have put it there, and it has no fields to tell apart.
        value, opaque = None, True
    if opaque:
        form, value = _opaque(body)
        if rules.opaque_hidden and not everything:
            return Payload(form, masked(rules.classification), None, ("*",))
        return Payload(form, value, size)
    if everything:
        return Payload("json", value, size)
    if rules.hide_whole(value, body):
        return Payload("json", masked(rules.classification), None, ("*",))
    hidden = [name for name in rules.masked_fields if name not in revealed]
    cleaned = mask(value, hidden, rules.classification)
    # By what is nothing's equal: a value may be the very text that stands in for it.
    left = tuple(name for name in hidden if FieldPath.parse(name).replaced(value, object()) != value)
    return Payload("json", cleaned, None if left else size, left)


def unreadable(body: bytes, error: MalformedEnvelope, rules: MaskingRules) -> tuple[Payload, str]:
    """What may be shown of ``body``, which is no envelope, and of why it is none. Where ``rules`` hide something it may
    be there all the same: its size would tell it apart, and so would the place where it cannot be read any further."""
    if rules.hide_something:
        return Payload("bytes", masked(rules.classification), None, ("*",)), NO_ENVELOPE
    return Payload("bytes", f"{len(body):,} bytes", len(body), ("*",)), error.what


def _bare(value: Any) -> bool:
    return any(map(_bare, value)) if isinstance(value, list) else not isinstance(value, dict)


def may_search(path: str, rules: MaskingRules) -> bool:
    """Whether looking for a value at ``path`` would tell nothing hidden."""
    return "*" not in rules.masked_fields and not is_masked(path, rules.masked_fields)


def _opaque(body: bytes) -> tuple[str, str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" in text:
        return "bytes", f"{len(body):,} bytes that are no text, beginning {body[:16].hex(' ')}"
    return "text", text
