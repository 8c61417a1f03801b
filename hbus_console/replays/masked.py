"""What a replay asks about masked fields: told to who may reveal them only, and recorded whenever it is answered."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction

from engine.bus.filters import compile_filter
from engine.bus.filters.telling import told
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.audit import chain
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.audit.sides import Sides
from hbus_console.audit.subjects import about
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.topics.field_paths import FieldPath
from hbus_console.topics.masking import masked
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules

#: A dry run is fetched again while its form is typed into, and by whoever starts it then: the same question of the same
#: person is recorded once in this time.
ONE_QUESTION = timedelta(minutes=5)
#: Its reason in the audit log: nobody is asked for one before they start anything.
WHY = "tried a filter on what is masked, in a dry run or a start of a replay"
WHY_COMPARED = "compared what is masked with the schema of another topic, in a dry run or a start of a replay"
#: Stands for the whole payload.
WHOLE = "*"
#: Where :func:`without` left something out, and the texts beside it that may say the same.
_LEFT_OUT = re.compile(r'"(?:[^"\\]|\\.)*"|…(?: (?=payload))?')
#: What makes a filter of it again. Two fields stand beside each other that were compared.
_STAND_INS = {"…": "== 0", "… ": "== 0 and "}

_clock = SystemClock()


def touched(topic: Topic | None, text: str) -> list[str]:
    """The masked fields that a filter asks about, as the topic names them, or :data:`WHOLE`; empty: none."""
    return _touched(MaskingRules.of(topic), text) if text else []


def _touched(rules: MaskingRules, text: str) -> list[str]:
    fields = compile_filter(text).payload_fields
    if fields and (WHOLE in rules.masked_fields or ("" in fields and rules.hide_something)):
        return [WHOLE]
    return sorted({each for each in rules.masked_fields if any(_overlap(field, each) for field in fields)})


def without(text: str, guarded: Sequence[str]) -> str:
    """The filter without what it asks about the fields ``guarded``."""

    def kept(field: str) -> str | None:
        if WHOLE in guarded:
            return ""
        return next((each for each in guarded if not field or _overlap(field, each)), None)

    return told(text, kept)


def record_question(actor: Actor, topic: Topic, text: str, *, clock: Clock = _clock) -> None:
    """Audit that ``actor`` tries a filter, before it is answered, if it asks about what is masked: by one question
    after the other the value is found out, as by a reveal."""
    if fields := touched(topic, text):
        _record(actor, topic, _MaskedQuestion(WHY, text, {"fields": fields, "filter": without(text, fields)}), clock)


def record_comparison(actor: Actor, topic: Topic, schema: str, *, clock: Clock = _clock) -> None:
    """Likewise that ``actor`` is told which messages fit a ``schema``, which anybody may have written for that."""
    rules = MaskingRules.of(topic)
    if rules.hide_something:
        fields = list(rules.masked_fields) or [WHOLE]
        _record(actor, topic, _MaskedQuestion(WHY_COMPARED, schema, {"fields": fields, "schema": schema}), clock)


def questions(entries: Sequence[AuditEntry]) -> list[Sides]:
    """Before and after of entries of reveals: what is masked since is told by no filter that somebody tried before. A
    topic that was made since only has the name of the one they asked about. One query."""
    topics = {topic.name: topic for topic in Topic.objects.filter(name__in={entry.namespace for entry in entries})}
    return [
        Sides(entry.before, _question(MaskingRules.at(topics.get(entry.namespace), entry.at), entry.after))
        for entry in entries
    ]


def _question(rules: MaskingRules, after: Any) -> Any:
    if not isinstance(after, dict) or not isinstance(after.get("filter"), str):
        return after
    try:
        text = _LEFT_OUT.sub(lambda found: _STAND_INS.get(found[0], found[0]), after["filter"])
        return {**after, "filter": without(text, sorted({*after["fields"], *_touched(rules, text)}))}
    except (BadInput, KeyError, TypeError):
        # What cannot be read cannot be told in part; nor what somebody wrote there by hand.
        return {**after, "filter": masked(rules.classification)}


class _MaskedQuestion(NamedTuple):
    """``told``: what the audit log says of it, which is not ``asked`` itself."""

    why: str
    asked: str
    told: Mapping[str, Any]


def _record(actor: Actor, topic: Topic, question: _MaskedQuestion, clock: Clock) -> None:
    mark, since = _mark(actor, topic, question), to_datetime(clock.now_ms()) - ONE_QUESTION
    asked = AuditEntry.objects.filter(
        about(topic.subject), action=PAYLOAD_REVEAL.name, actor=actor.name, actor_kind=actor.kind, at__gt=since
    )
    if any(isinstance(entry.after, dict) and entry.after.get("question") == mark for entry in asked):
        return
    after = {**question.told, "classification": topic.classification, "question": mark}
    with transaction.atomic():
        record(actor, PAYLOAD_REVEAL.name, topic.subject, reason=question.why, after=after)


def told_spec(spec: Mapping[str, Any], guarded: Sequence[str]) -> dict[str, Any]:
    """A replay's spec without what its filter asks about the fields ``guarded``."""
    return {**spec, "filter": without(str(spec["filter"]), guarded)} if spec.get("filter") else dict(spec)


def _mark(actor: Actor, topic: Topic, question: _MaskedQuestion) -> str:
    """Tells one question from another, and nobody what it is: it is keyed, for there may be few possibilities."""
    key = chain.key_for(settings.AUDIT_KEY, "a question about what is masked")
    said = chain.canonical(
        {"actor": [actor.kind, actor.name], "topic": topic.name, "question": [question.why, question.asked]}
    )
    return hmac.digest(key.encode(), said, "sha256").hex()


def _overlap(field: str, masked: str) -> bool:
    return FieldPath.parse(field).overlaps(FieldPath.parse(masked))
