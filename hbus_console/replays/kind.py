"""Replaying as an operation: chosen messages are published again, as new messages that name their originals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from django.db import transaction
from django.http import QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from engine.bus.errors import PublishRefused
from engine.bus.facts import Fact, batches
from engine.bus.message import Message
from engine.bus.subjects import MESSAGE, message_subject, subject_of
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.error_text import shortened
from engine.core.errors import BadInput
from engine.core.ids import new_id, trace_id_of
from engine.core.pacing import Pacing
from engine.core.strict_json import NotJson
from hbus_console.access.permissions import Actor, Forbidden, allows, require
from hbus_console.evidence.columns import texts
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.messages.models import LONGEST_SOURCE
from hbus_console.operations.kinds import Do, Item, Plan, Result, Sample, Step, Task
from hbus_console.outbox.services import send_on_commit
from hbus_console.quotas.asking import PUBLISH, pacing
from hbus_console.replays import masked
from hbus_console.replays import spec as specs
from hbus_console.replays.feature import REPLAY
from hbus_console.replays.from_archive import ArchiveWalk, let_go, older_warnings, survey_archive
from hbus_console.replays.spec import Chosen, Selection
from hbus_console.replays.target import ReplayTarget
from hbus_console.replays.walking import Found, LogWalk, Walk, part_of
from hbus_console.subjects import readable
from hbus_console.topics.leaving import record_leaving
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, shown
from hbus_console.ui.formats import counted
from hbus_console.wiring import fact_log, store

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


class Replay:
    """See :class:`~hbus_console.operations.kinds.OperationKind`, and beside it
    :class:`~hbus_console.operations.guarded.GuardedKind`."""

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
        return f"Replay {wanted.topic} {'from the archive ' if wanted.read_from else ''}{wanted.words}"

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        try:
            return survey(actor, specs.stored(spec))
        except PublishRefused as refused:
            return Plan(None, obstacle=str(refused))

    def guarded(self, spec: Mapping[str, Any]) -> list[str]:
        if not (text := str(spec.get("filter") or "")):
            return []
        return masked.touched(Topic.objects.filter(name=self.namespace(spec)).first(), text)

    def told(self, spec: Mapping[str, Any], guarded: Sequence[str]) -> dict[str, Any]:
        return masked.told_spec(spec, guarded)

    def require_all(self, actor: Actor, spec: Mapping[str, Any]) -> None:
        require(actor, PAYLOAD_REVEAL, self.namespace(spec))

    def knows_all(self, actor: Actor, spec: Mapping[str, Any]) -> bool:
        return allows(actor, PAYLOAD_REVEAL, self.namespace(spec))

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        wanted = specs.stored(spec)
        return pacing(PUBLISH, wanted.into_topic or wanted.topic, actor)

    def ahead(
        self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]
    ) -> Mapping[str, int] | None:
        return None

    def let_go(self, operation_id: int) -> None:
        let_go(operation_id)

    def look(self, task: Task, limit: int) -> Do:
        wanted = specs.stored(task.spec)
        topic = Topic.objects.filter(name=wanted.topic).first()
        if topic is None:
            raise BadInput(f"There is no topic {wanted.topic!r} any more.")
        shows = _still_allowed(task.actor, wanted)
        chosen, now_ms, target = Chosen(task.actor, wanted), _clock.now_ms(), ReplayTarget(task.actor, wanted)
        walk = _walk(task.operation_id, topic, wanted)
        most = int(task.cursor.get("most", 0)) or walk.most
        part = part_of(walk, task.cursor.get("after"), chosen, limit=limit, scan_most=SCAN_MOST)
        # Where it was asked about what is masked, the evidence of a message does not say by which operation it fitted.
        why = "" if masked.touched(topic, wanted.filter) else f": {task.reason}"
        items: list[Item] = []
        copies: list[Message] = []
        facts: list[Fact] = []
        matches = 0
        for found in part.found:
            if found.message is None:
                items.append(_unreadable(wanted, found, "its envelope cannot be read"))
                continue
            matches += 1
            if not _fit_to_copy(found.message):
                items.append(_unreadable(wanted, found, "its payload is not JSON"))
            elif problem := target.problem(found.message):
                items.append(_unreadable(wanted, found, problem))
            elif refused := target.refusal(copy := _copy(found.message, wanted, now_ms)):
                items.append(_unreadable(wanted, found, refused))
            else:
                copies.append(copy)
                items.append(_item(wanted, found, copy))
                facts.append(_fact(wanted, found, copy, now_ms, f"as {copy.id} by {task.actor.name}{why}"))
        counts = {
            name: int(task.cursor.get(name, 0)) + more
            for name, more in (
                ("scanned", part.scanned),
                ("matched", matches),
                ("left", matches - len(facts)),
                ("twice", part.twice),
            )
        }
        note = _told(**counts, most=most) + (", reached the end of the range" if part.finished else "")
        # Once, with the first of them that are shown: there may be a million.
        reveals = shows and bool(facts) and not task.cursor.get("revealed")
        cursor = {"after": part.after or "", "most": most, **counts}
        if reveals or task.cursor.get("revealed"):
            cursor["revealed"] = True
        step = Step(items, cursor, finished=part.finished, scanned=part.scanned, note=note)

        def do() -> Step:
            if reveals:
                _record_leaving(task, topic, wanted)
            return _publish(wanted, copies, facts, step)

        return do


def _record_leaving(task: Task, topic: Topic, wanted: Selection) -> None:
    where = {"into_topic": wanted.into_topic} if wanted.into_topic else {"subscription": wanted.into_group}
    record_leaving(task.actor, topic.subject, MaskingRules.of(topic), where, task.reason)


def _publish(wanted: Selection, copies: Sequence[Message], facts: Sequence[Fact], step: Step) -> Step:
    for copy in copies:
        send_on_commit(wanted.into_topic or wanted.topic, copy)
    if facts:
        transaction.on_commit(lambda: fact_log.emitter().emit(batches(facts)))
    return step


def survey(actor: Actor, wanted: Selection, *, clock: Clock = _clock) -> Plan:
    """What a replay would find, as far as one look reaches; changes nothing. That something masked was asked
    about is recorded before it is answered."""
    topic = Topic.objects.get(name=wanted.topic)
    masked.record_question(actor, topic, wanted.filter, clock=clock)
    if wanted.read_from:
        return survey_archive(actor, wanted)
    until = clock.monotonic() + LONGEST_S
    chosen, target = Chosen(actor, wanted), ReplayTarget(actor, wanted)
    if target.compares:
        masked.record_comparison(actor, topic, target.compares, clock=clock)
    scanned = matched = fit = unreadable = 0
    unfit: Counter[str] = Counter()
    samples: list[Sample] = []
    # Empty: it came to the end.
    why = ""
    walk = LogWalk(topic, wanted)
    for found in walk.found(""):
        if scanned == PLAN_MOST:
            why = f"a dry run looks at {PLAN_MOST:,} messages at most"
            break
        if clock.monotonic() >= until:
            why = f"a dry run looks for {LONGEST_S:g} seconds at most"
            break
        scanned += 1
        if found.message is None:
            unreadable += 1
            continue
        if not chosen(found.message):
            continue
        matched += 1
        if not _fit_to_copy(found.message):
            unreadable += 1
        elif problem := target.problem(found.message) or target.refusal(_copy(found.message, wanted, wanted.to_ms)):
            unfit[problem] += 1
        else:
            fit += 1
            if len(samples) < _SAMPLES:
                samples.append(sample_told(topic, wanted, found.at_ms, found.message))
    return Plan(
        total=None if why else fit,
        all_left=matched if not fit else 0,
        samples=samples,
        warnings=[*older_warnings(wanted, walk.oldest_ms), *_left(unreadable, unfit), *target.warnings()],
        scanned=f"{_told(scanned=scanned, matched=matched, left=matched - fit)}, stopped because {why or _AT_THE_END}",
        horizon=wanted.to_ms,
        dear=True,
    )


def _told(*, scanned: int, matched: int, left: int, twice: int = 0, most: int = 0) -> str:
    """What matches is what was asked for, wherever it is to go; what is left of it does not go there."""
    of = f" of at most {most:,}" if most else ""
    of += f" ({twice:,} of them once more)" if twice else ""
    return f"Scanned {scanned:,}{of}, matched {matched:,}" + (f" ({left:,} of them left)" if left else "")


def _walk(operation_id: int, topic: Topic, wanted: Selection) -> Walk:
    return ArchiveWalk(operation_id, wanted) if wanted.read_from else LogWalk(topic, wanted)


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


def sample_told(topic: Topic, wanted: Selection, at_ms: int, message: Message) -> Sample:
    """One that is chosen, masked as ``topic`` masks."""
    value = shown(message, MaskingRules.of(topic)).value
    text = json.dumps(value, ensure_ascii=False, default=str) if value is not None else "no payload"
    subject = readable(MESSAGE, topic.name, message.id)
    return Sample(subject, to_datetime(at_ms), shortened(text, _SHOWN), _facets(wanted))


def _unreadable(wanted: Selection, found: Found, why: str) -> Item:
    subject = readable(MESSAGE, wanted.topic, found.position)
    return Item(found.key, subject, Result.FAILED, why, facets=_facets(wanted))


def _item(wanted: Selection, found: Found, copy: Message) -> Item:
    detail = f"in topic {wanted.into_topic}" if wanted.into_topic else ""
    subject = readable(MESSAGE, wanted.topic, copy.causationid)
    became = message_subject(wanted.into_topic or wanted.topic, copy.id)
    place = subject_of(wanted.into_topic or wanted.topic, wanted.into_group)
    source = {"source": next(iter(texts(copy.source, 1, LONGEST_SOURCE)))}
    return Item(found.key, subject, Result.DONE, detail, became, place, _facets(wanted) | source)


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
        position=found.position,
        node=store.node_name(),
        detail=detail,
    )


KIND = Replay()
