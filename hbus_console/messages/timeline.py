"""A message's life in plain words: one moment after the other, each with what it meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.bus.fact_kinds import BUS_KINDS, BusKind
from engine.bus.subjects import MESSAGE
from engine.core.fact_kinds import Tone
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.message_trace import MOST_REDRIVES, Life
from hbus_console.messages.models import LedgerEvent
from hbus_console.messages.outcomes import outcomes
from hbus_console.operations.models import UNDECIDED
from hbus_console.operations.outcomes import Made
from hbus_console.subjects import readable
from hbus_console.ui.formats import clock, counted, duration


@dataclass(frozen=True)
class Moment:
    """``before`` and ``name`` are its sentence ("Settled by", "billing"); ``notes`` say more, quietly."""

    at_ms: int
    tone: str
    kind: str
    before: str
    name: str = ""
    notes: tuple[str, ...] = ()
    #: An error text among the notes, set in the type of code.
    error: str = ""
    #: Where ``name`` leads: the id of a message.
    leads_to: str = ""
    audit_seq: int | None = None
    subscription: str = ""
    attempt: int = 0
    after: str = ""
    #: Of a failed attempt: the way its error came.
    stack: str = ""

    @property
    def sentence(self) -> str:
        """All of it on one line, for answers and exports."""
        head = " ".join(part for part in (self.before, self.name, self.after) if part)
        return " · ".join([head, *([self.error] if self.error else []), *self.notes])

    def offset(self, start_ms: int) -> str:
        """How long after the beginning: ``+5 ms``, ``+34.9 s``."""
        passed = self.at_ms - start_ms
        return "+0" if passed <= 0 else f"+{duration(passed * 1000)}"


def moments(life: Life) -> list[Moment]:
    """The whole life of ``life``, in order of time."""
    told = [*_birth(life), *_events(life), *_decisions(life)]
    return sorted(told, key=lambda moment: moment.at_ms)


def _birth(life: Life) -> Iterator[Moment]:
    entry, message = life.entry, life.envelope
    if entry is None or not life.was_published:
        return
    notes = []
    if message is not None and message.dataschema:
        notes.append(f"schema {_version(message.dataschema)}")
    if entry.key:
        notes.append(f"key {entry.key}")
    if message is not None and message.sequence:
        notes.append(f"sequence {message.sequence}")
    if entry.stored_us:
        notes.append(f"stored in {duration(entry.stored_us)}")
    if life.target:
        notes.append(f"for {life.target} alone")
    if entry.due_ms:
        late_ms = entry.published_ms - entry.due_ms
        notes.append("on time" if late_ms < 1_000 else f"{duration(late_ms * 1000)} after it was due")
    before = "Due, and published for" if entry.due_ms else "Published by"
    yield Moment(entry.published_ms, BUS_KINDS["published"].tone, "published", before, who(entry.source), tuple(notes))


def _events(life: Life) -> Iterator[Moment]:
    told = [event for event in life.events if event.kind not in ("redriven", "discarded")]
    runs: list[LedgerEvent] = []
    by_subscription = sorted(told, key=lambda event: (event.subscription, event.at_ms, event.pk))
    for _, events in groupby(by_subscription, key=lambda event: event.subscription):
        for event in events:
            if event.kind == "retried" and (not runs or _same_trouble(runs[-1], event)):
                runs.append(event)
                continue
            yield from _failures(life, runs)
            runs = []
            if event.kind == "retried":
                runs = [event]
            else:
                yield _event(life, event)
        yield from _failures(life, runs)
        runs = []


def _same_trouble(one: LedgerEvent, other: LedgerEvent) -> bool:
    return (one.fingerprint, one.stack_id) == (other.fingerprint, other.stack_id)


def _failures(life: Life, runs: Sequence[LedgerEvent]) -> Iterator[Moment]:
    """The first failure of a cause in full, the later ones of the same cause, that came the same way, together."""
    if not runs:
        return
    first, rest = runs[0], runs[1:]
    yield Moment(
        first.at_ms,
        BUS_KINDS["retried"].tone,
        "retried",
        f"Attempt {first.attempt} failed in",
        first.subscription,
        tuple(filter(None, (_where(first), _pause("retry in", first)))),
        error=first.shown_error,
        subscription=first.subscription,
        attempt=first.attempt,
        stack=_stack(life, first),
    )
    if not rest:
        return
    last = rest[-1]
    numbers = f"Attempt {last.attempt}" if len(rest) == 1 else f"Attempts {rest[0].attempt} to {last.attempt}"
    pauses = ", ".join(duration((event.due_ms - event.at_ms) * 1000) for event in rest if event.due_ms)
    yield Moment(
        rest[0].at_ms,
        BUS_KINDS["retried"].tone,
        "retried",
        f"{numbers} failed in",
        last.subscription,
        ("same cause", *([f"then waited {pauses}"] if pauses else [])),
        subscription=last.subscription,
        attempt=last.attempt,
        stack=_stack(life, last),
    )


def _event(life: Life, event: LedgerEvent) -> Moment:
    tone, before, notes = _words(life, event)
    return Moment(
        event.at_ms,
        tone,
        event.kind,
        before,
        event.subscription,
        tuple(note for note in notes if note),
        error=event.shown_error,
        subscription=event.subscription,
        attempt=event.attempt,
        stack=_stack(life, event),
    )


def _stack(life: Life, event: LedgerEvent) -> str:
    return life.stacks.get(event.stack_id or "", "")


def _words(life: Life, event: LedgerEvent) -> tuple[str, str, tuple[str, ...]]:
    """Tone, sentence and notes of one event."""
    kind = BUS_KINDS.get(event.kind)
    tone = kind.tone if kind else Tone.INFO
    if kind is not None and (later := _words_of_later(life, event, kind)):
        return tone, *later
    if event.kind == "replayed":
        return tone, "Replayed into" if event.subscription else "Replayed into another topic", (event.detail,)
    if event.kind == "settled":
        attempt = f"attempt {event.attempt}" if event.attempt else ""
        return tone, "Settled by", (attempt, _where(event), event.detail)
    if event.kind == "dead":
        fingerprint = f"fingerprint {event.fingerprint[:6]}" if event.fingerprint else ""
        return tone, "Dead in", (_spent(life, event), fingerprint, event.detail)
    if event.kind == "deduplicated":
        delivered = "Delivered again: handled before by", (_where(event), "its handler was not run", event.detail)
        published = "Published again with the same key: not stored", (event.detail,)
        return tone, *(delivered if event.subscription else published)
    told = (kind.told if kind else "") or event.kind.replace("_", " ").capitalize()
    return tone, told, (kind.note if kind else "", event.detail)


def _words_of_later(life: Life, event: LedgerEvent, kind: BusKind) -> tuple[str, tuple[str, ...]] | None:
    """Likewise, of what was accepted for later and is not published."""
    if event.kind == "delayed":
        return f"Accepted from {who(life.source)}, due at {clock(event.due_ms)}", (event.detail,)
    if event.kind == "due_refused":
        again = f"tried again at {clock(event.due_ms)}" if event.due_ms else ""
        return "Due, and refused", (event.detail, "it is kept", again)
    if event.kind == "cancelled" and not event.subscription:
        # By whoever did it: before anybody had it.
        return "Cancelled before its time came", (event.detail or kind.note,)
    return None


def _decisions(life: Life) -> Iterator[Moment]:
    entries = {
        (entry.action, (entry.after or {}).get("letter")): entry
        for entry in life.acts
        if entry.action != "payload.reveal"
    }
    for letter in life.letters:
        if letter.decided_at is None:
            continue
        at_ms = round(letter.decided_at.timestamp() * 1000)
        redriven = letter.state == DeadLetter.State.REDRIVEN
        asked = ("dead_letter.redrive", "dead_letter.edit") if redriven else ("dead_letter.discard",)
        entry = next((entry for action in asked if (entry := entries.get((action, letter.pk)))), None)
        yield Moment(
            at_ms,
            "act",
            "redrive" if redriven else "discarded",
            "Redrive asked by" if redriven else "Discarded by",
            letter.decided_by,
            (f"“{letter.reason}”",),
            audit_seq=entry.seq if entry else None,
            subscription=letter.subscription,
        )
        if redriven:
            yield Moment(
                at_ms,
                "info",
                "redriven",
                "Redriven as",
                letter.redriven_as,
                ("new id, caused by this one", _fate(life, letter)),
                leads_to=letter.redriven_as,
                subscription=letter.subscription,
            )
    for entry in life.acts:
        if entry.action == "payload.reveal":
            yield _reveal(entry)


def _reveal(entry: AuditEntry) -> Moment:
    fields = ", ".join((entry.after or {}).get("fields", [])) or "masked fields"
    return Moment(
        round(entry.at.timestamp() * 1000),
        "act",
        "revealed",
        "Revealed by",
        entry.actor,
        (fields.replace("*", "the whole payload"), f"“{entry.reason}”"),
        audit_seq=entry.seq,
    )


def last_copy(life: Life, letter: DeadLetter) -> tuple[str, int]:
    """The last of the copies that were redriven one from the other, and how many there are."""
    copy, number = letter.redriven_as, 1
    while (further := life.redriven_on.get(copy)) and number < MOST_REDRIVES:
        copy, number = further, number + 1
    return copy, number


def end_of(life: Life, letter: DeadLetter) -> str:
    """How a letter that was redriven ended: ``settled``, ``dead``, ``discarded``, or empty where it has not."""
    copy, _ = last_copy(life, letter)
    if copy in life.discarded_copies:
        return "discarded"
    return next((event.kind for event in life.copies.get(copy, ()) if event.kind in ("settled", "dead")), "")


def _fate(life: Life, letter: DeadLetter) -> str:
    """What became of a redriven copy, and of those that were redriven from it."""
    copy, number = last_copy(life, letter)
    if number > 1:
        died = (
            "it died again" if number == 2 else f"it and {counted(number - 2, 'further copy', 'further copies')} died"
        )
        return f"{died}, and was redriven as {copy}: {_fate_of(life, letter, copy)}"
    return _fate_of(life, letter, copy)


def _fate_of(life: Life, letter: DeadLetter, copy: str) -> str:
    events = life.copies.get(copy, [])
    for event in events:
        if event.kind == "settled":
            spent = f" in {duration(event.duration_us)}" if event.duration_us else ""
            return f"settled by {event.subscription} at attempt {event.attempt}{spent}"
        if event.kind == "dead":
            died = f"dead in {event.subscription} again after {counted(event.attempt, 'attempt')}"
            return f"{died}, and discarded there" if copy in life.discarded_copies else died
    if letter.copy is not None and letter.decided_at is not None:
        facets = {"subscription": letter.subscription, "source": letter.source}
        made = readable(MESSAGE, letter.topic, copy)
        (ended,) = outcomes([Made(made, letter.decided_at, letter.decided_at, facets)])
        if ended.outcome not in UNDECIDED:
            return ended.detail or str(ended.outcome.label).lower()
    if events and events[-1].kind == "parked":
        return f"set aside with its key in {letter.subscription}"
    if failed := sum(event.kind == "retried" for event in events):
        return f"{counted(failed, 'attempt')} failed so far"
    return f"waits for {letter.subscription}"


def _where(event: LedgerEvent) -> str:
    spent = duration(event.duration_us) if event.duration_us else ""
    return " · ".join(part for part in (event.node, spent) if part)


def _pause(word: str, event: LedgerEvent) -> str:
    return f"{word} {duration((event.due_ms - event.at_ms) * 1000)}" if event.due_ms > event.at_ms else ""


def _spent(life: Life, event: LedgerEvent) -> str:
    """``5 attempts in 34.9 s``."""
    tries = [
        other for other in life.events if other.subscription == event.subscription and other.kind in ("retried", "dead")
    ]
    begun = min((other.at_ms - other.duration_us // 1000 for other in tries), default=event.at_ms)
    word = "attempt" if event.attempt == 1 else "attempts"
    return f"{event.attempt} {word} in {duration((event.at_ms - begun) * 1000)}"


def who(source: str) -> str:
    """The end of a source by which people call it: from its last part on that is more than a number."""
    parts = source.strip("/").split("/")
    named = max((place for place, part in enumerate(parts) if not part.isdigit()), default=0)
    return "/".join(parts[named:]) or source


def _version(schema: str) -> str:
    last = re.split(r"[:/]", schema)[-1]
    return f"v{last}" if last.isdigit() else last
