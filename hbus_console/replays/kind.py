"""Replaying as an operation: chosen messages are published again, as new messages that name their originals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import transaction
from django.http import QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope, PublishRefused
from engine.bus.facts import Fact, batches
from engine.bus.message import Message
from engine.bus.subjects import MESSAGE, message_subject, subject_of
from engine.bus.transport import Admin, Page, Stored
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.error_text import shortened
from engine.core.errors import BadInput
from engine.core.ids import new_id, trace_id_of
from engine.core.pacing import Pacing
from engine.core.strict_json import NotJson
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.evidence.columns import texts
from hbus_console.messages.models import LONGEST_SOURCE
from hbus_console.operations.kinds import Do, Item, Plan, Result, Sample, Step, Task
from hbus_console.outbox.services import send_on_commit
from hbus_console.quotas.asking import PUBLISH, pacing
from hbus_console.replays import spec as specs
from hbus_console.replays.feature import REPLAY
from hbus_console.replays.spec import Chosen, Selection
from hbus_console.replays.target import ReplayTarget
from hbus_console.subjects import readable
from hbus_console.topics.leaving import record_leaving
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, shown
from hbus_console.ui.formats import counted
from hbus_console.wiring import bus, fact_log, store

#: Messages read from the store at once.
PAGE = 500
#: The most messages a dry run looks at.
PLAN_MOST = 20_000
#: The longest a dry run looks, in seconds: messages may be big.
LONGEST_S = 2.0
#: The most messages one step looks at, matching or not.
SCAN_MOST = 5_000
_SAMPLES = 5
#: Causes for which messages are left that a dry run names, those with the most messages.
_CAUSES = 3
_SHOWN = 120
_AT_THE_END = "the end of the range was reached"

_clock = SystemClock()


@dataclass(frozen=True)
class Found:
    """One message of the range: ``message`` is ``None`` when its envelope cannot be read."""

    stored: Stored
    message: Message | None


class Replay:
    """See :class:`hbus_console.operations.kinds.OperationKind`."""

    name = "replay"
    verb = "Replay"
    action = REPLAY
    effect = (
        "Each message is published again as a new one, with an id of its own that names the original as its cause. "
        "The originals stay as they are. What was published cannot be taken back."
    )
    did = "replayed"
    died = "died"
    rate_per_s = 20
    works_on = "message"
    destructive = False
    facets = ("subscription",)

    def from_query(self, query: QueryDict) -> dict[str, Any]:
        return {name: value for name, value in specs.from_address(query).items() if value}

    def choice_url(self, spec: Mapping[str, Any]) -> str:
        chosen = specs.as_address({**spec, "topic": ""})
        return f"{reverse('replays:form', args=[spec.get('topic') or '-'])}?{urlencode(chosen)}"

    def check(self, actor: Actor, spec: Mapping[str, Any], horizon: int | None = None) -> dict[str, Any]:
        now_ms = _clock.now_ms()
        return specs.read(actor, spec, now_ms if horizon is None else min(horizon, now_ms)).as_spec()

    def namespace(self, spec: Mapping[str, Any]) -> str:
        return str(spec.get("topic", ""))

    def title(self, spec: Mapping[str, Any]) -> str:
        wanted = specs.stored(spec)
        return f"Replay {wanted.topic} {wanted.words}"

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        try:
            return survey(actor, specs.stored(spec))
        except PublishRefused as refused:
            return Plan(None, obstacle=str(refused))

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        wanted = specs.stored(spec)
        return pacing(PUBLISH, wanted.into_topic or wanted.topic, actor)

    def look(self, task: Task, limit: int) -> Do:
        wanted = specs.stored(task.spec)
        topic = Topic.objects.filter(name=wanted.topic).first()
        if topic is None:
            raise BadInput(f"There is no topic {wanted.topic!r} any more.")
        shows = _still_allowed(task.actor, wanted)
        chosen, now_ms, target = Chosen(task.actor, wanted), _clock.now_ms(), ReplayTarget(task.actor, wanted)
        after, scanned = str(task.cursor.get("after", "")), 0
        items: list[Item] = []
        copies: list[Message] = []
        facts: list[Fact] = []
        finished = True
        for found in _walk(topic, wanted, after):
            if len(items) == limit or scanned == SCAN_MOST:
                finished = False
                break
            scanned, after = scanned + 1, found.stored.position
            if found.message is None:
                items.append(_unreadable(wanted, found.stored, "its envelope cannot be read"))
            elif not chosen(found.message):
                continue
            elif not _fit_to_copy(found.message):
                items.append(_unreadable(wanted, found.stored, "its payload is not JSON"))
            elif problem := target.problem(found.message):
                items.append(_unreadable(wanted, found.stored, problem))
            elif refused := target.refusal(copy := _copy(found.message, wanted, now_ms)):
                items.append(_unreadable(wanted, found.stored, refused))
            else:
                copies.append(copy)
                items.append(_item(wanted, found, copy))
                facts.append(_fact(wanted, found, copy, now_ms, f"as {copy.id} by {task.actor.name}: {task.reason}"))
        total = int(task.cursor.get("scanned", 0)) + scanned
        matched = int(task.cursor.get("matched", 0)) + len(facts)
        note = f"Scanned {total:,}, matched {matched:,}" + (", reached the end of the range" if finished else "")
        cursor = {"after": after, "scanned": total, "matched": matched}
        step = Step(items, cursor, finished=finished, scanned=scanned, note=note)
        # Once, with the first of them: there may be a million.
        begins = bool(facts) and matched == len(facts)

        def do() -> Step:
            if shows and begins:
                _record_leaving(task, topic, wanted)
            return _publish(wanted, copies, facts, step)

        return do


def _record_leaving(task: Task, topic: Topic, wanted: Selection) -> None:
    where = {"into_topic": wanted.into_topic}
    record_leaving(task.actor, topic.subject, MaskingRules.of(topic), where, task.reason)


def _publish(wanted: Selection, copies: Sequence[Message], facts: Sequence[Fact], step: Step) -> Step:
    for copy in copies:
        send_on_commit(wanted.into_topic or wanted.topic, copy)
    if facts:
        transaction.on_commit(lambda: fact_log.emitter().emit(batches(facts)))
    return step


def survey(actor: Actor, wanted: Selection, *, clock: Clock = _clock) -> Plan:
    """What a replay would find, as far as one look reaches; changes nothing."""
    until = clock.monotonic() + LONGEST_S
    chosen, target = Chosen(actor, wanted), ReplayTarget(actor, wanted)
    topic = Topic.objects.get(name=wanted.topic)
    scanned = matched = unreadable = 0
    unfit: Counter[str] = Counter()
    samples: list[Sample] = []
    # Empty: it came to the end.
    why = ""
    for found in _walk(topic, wanted, ""):
        if scanned == PLAN_MOST:
            why = f"a dry run looks at {PLAN_MOST:,} messages at most"
            break
        if clock.monotonic() >= until:
            why = f"a dry run looks for {LONGEST_S:g} seconds at most"
            break
        scanned += 1
        if found.message is None:
            unreadable += 1
        elif not chosen(found.message):
            continue
        elif not _fit_to_copy(found.message):
            unreadable += 1
        elif problem := target.problem(found.message) or target.refusal(_copy(found.message, wanted, wanted.to_ms)):
            unfit[problem] += 1
        else:
            matched += 1
            if len(samples) < _SAMPLES:
                samples.append(_sample(topic, wanted, found.stored, found.message))
    return Plan(
        total=None if why else matched,
        samples=samples,
        warnings=[*_left(unreadable, unfit), *target.warnings()],
        scanned=f"Scanned {scanned:,}, matched {matched:,}, stopped because {why or _AT_THE_END}",
        horizon=wanted.to_ms,
        dear=True,
    )


def _walk(topic: Topic, wanted: Selection, after: str) -> Iterator[Found]:
    """The messages of the range from ``after`` on, in the order of publishing."""
    admin: Admin = bus.admin(topic.transport)
    cursor = after or wanted.after or (f"@{wanted.from_ms}" if wanted.from_ms else "")
    while True:
        page = admin.browse(topic.name, after=cursor, limit=PAGE)
        beyond = _beyond(admin, wanted, page)
        for stored in page.entries:
            if stored.at_ms > wanted.to_ms or stored.position == beyond:
                return
            if stored.at_ms >= wanted.from_ms:
                yield Found(stored, _decoded(stored))
            if wanted.until and stored.position == wanted.until:
                return
        if not page.next_position:
            return
        cursor = page.next_position


def _beyond(admin: Admin, wanted: Selection, page: Page) -> str:
    """Where a page is past the last message of the range: retention may have taken that one, and a replay of a release
    before knows no instant of it. Asked once the page is there: what it took before that is not in it."""
    if not wanted.until or any(stored.position == wanted.until for stored in page.entries):
        return ""
    first = admin.browse(wanted.topic, after=wanted.until, limit=1).entries
    return first[0].position if first else ""


def _decoded(stored: Stored) -> Message | None:
    try:
        return envelope.decode(stored.body)
    except MalformedEnvelope:
        return None


def _fit_to_copy(message: Message) -> bool:
    """Whether a publish would take the payload, however it came into the log."""
    try:
        if message.data_base64 is None:
            message.json()
    except NotJson:
        return False
    return True


def _copy(original: Message, wanted: Selection, now_ms: int) -> Message:
    expires_ms = _expiry(original)
    return msgspec.structs.replace(
        original,
        id=new_id(now_ms),
        causationid=original.id,
        hbusreplay="replay",
        hbustarget=wanted.into_group,
        hbusdue="",
        expirytime="" if expires_ms is not None and expires_ms <= now_ms else original.expirytime,
    )


def _expiry(message: Message) -> int | None:
    try:
        return message.expires_ms()
    except ValueError:
        # An instant nobody can read: the copy goes without it.
        return 0


def _still_allowed(actor: Actor, wanted: Selection) -> bool:
    try:
        return specs.require_still(actor, wanted)
    except Forbidden as error:
        raise BadInput(f"It may not go on: {error.what}") from error


def _left(unreadable: int, unfit: Counter[str]) -> Iterator[str]:
    if unreadable:
        yield f"{counted(unreadable, 'message')} cannot be read and will be left."
    for problem, count in unfit.most_common(_CAUSES):
        yield f"{counted(count, 'message')} will be left: {problem}."
    if (more := sum(unfit.values()) - sum(count for _, count in unfit.most_common(_CAUSES))) > 0:
        yield f"{counted(more, 'message')} more do not fit there and will be left."


def _sample(topic: Topic, wanted: Selection, stored: Stored, message: Message) -> Sample:
    value = shown(message, MaskingRules.of(topic)).value
    text = json.dumps(value, ensure_ascii=False, default=str) if value is not None else "no payload"
    subject = readable(MESSAGE, topic.name, message.id)
    return Sample(subject, to_datetime(stored.at_ms), shortened(text, _SHOWN), _facets(wanted))


def _unreadable(wanted: Selection, stored: Stored, why: str) -> Item:
    subject = readable(MESSAGE, wanted.topic, stored.position)
    return Item(stored.position, subject, Result.FAILED, why, facets=_facets(wanted))


def _item(wanted: Selection, found: Found, copy: Message) -> Item:
    detail = f"in topic {wanted.into_topic}" if wanted.into_topic else ""
    subject = readable(MESSAGE, wanted.topic, copy.causationid)
    became = message_subject(wanted.into_topic or wanted.topic, copy.id)
    place = subject_of(wanted.into_topic or wanted.topic, wanted.into_group)
    source = {"source": next(iter(texts(copy.source, 1, LONGEST_SOURCE)))}
    return Item(found.stored.position, subject, Result.DONE, detail, became, place, _facets(wanted) | source)


def _facets(wanted: Selection) -> dict[str, str]:
    return {"subscription": wanted.into_group} if wanted.into_group else {}


def _fact(wanted: Selection, found: Found, copy: Message, now_ms: int, detail: str) -> Fact:
    return Fact(
        "replayed",
        now_ms,
        topic=wanted.topic,
        subscription=wanted.into_group,
        message_id=copy.causationid,
        key=copy.partitionkey,
        correlation_id=copy.correlationid,
        trace_id=trace_id_of(copy.traceparent),
        source=copy.source,
        position=found.stored.position,
        node=store.node_name(),
        detail=detail,
    )


KIND = Replay()
