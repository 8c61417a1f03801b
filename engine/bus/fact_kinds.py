"""The kinds of facts that the bus declares: each is told here, and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto

from engine.bus.facts import BusFields, read_rows
from engine.core.fact_kinds import QUIET, FactCatalog, FactCounter, FactKind, FactTimer, Tone


class Books(Flag):
    """What the message ledger makes of a fact."""

    #: It is counted, and its flow is kept.
    COUNT = 0
    #: The message itself.
    MESSAGE = auto()
    #: Of a publisher: the message itself, where nothing else has told of it. Who published it may have been killed.
    REPEAT = auto()
    #: Of whoever found it: the message itself, unless its source has told of it.
    FOUND = auto()
    #: Something that happened to a message.
    EVENT = auto()
    #: Something that concerns no single message.
    NOTICE = auto()


@dataclass(frozen=True)
class BusKind(FactKind):
    """What the bus says of a kind beyond what all engines say."""

    books: Books = Books.EVENT
    #: The column of a flow sample that counts it.
    flow: str = ""
    #: The sentence of a message's timeline, before the subscription's name, and a note behind it; empty where the
    #: timeline has more to tell than fits one sentence.
    told: str = ""
    note: str = ""
    #: Of an attempt: the colour of its bar in the chart of attempts, and the word beside it.
    bar: Tone | None = None
    bar_says: str = ""
    #: Whether the subscription is done with the message after it.
    final: bool = False
    #: Whether a handler was tried.
    attempted: bool = False


_TOPIC = ("topic",)
_BOTH = ("topic", "subscription")
_INFO, _WARNING, _ERROR = logging.INFO, logging.WARNING, logging.ERROR

KINDS = (
    BusKind(
        "published",
        "a message was appended to its topic",
        Tone.OK,
        QUIET,
        FactCounter("Messages appended to their topic.", _TOPIC),
        books=Books.MESSAGE,
        flow="published",
    ),
    BusKind(
        "untold",
        "a message lay in its topic of which nobody had told: its publisher was killed, or is not hbus",
        Tone.WARN,
        _INFO,
        FactCounter("Messages found in their topic of which nobody had told.", _TOPIC),
        books=Books.EVENT | Books.FOUND,
        flow="published",
        told="Found in its topic: whoever published it told nobody",
    ),
    BusKind(
        "publish_failed",
        "the store did not take messages, or not surely; size says how many of one call",
        Tone.BAD,
        _ERROR,
        FactCounter("Messages the store did not take, or not surely.", _TOPIC, adds="size"),
        books=Books.COUNT,
        flow="failed",
    ),
    BusKind(
        "deduplicated",
        "a publish repeated an idempotency key, or an inbox stopped a second delivery",
        Tone.INFO,
        QUIET,
        FactCounter("Repeated publishes and deliveries that had no effect.", _BOTH),
        books=Books.EVENT | Books.REPEAT,
        flow="deduplicated",
        bar=Tone.OK,
        final=True,
    ),
    BusKind(
        "delayed",
        "a message was stored until its due time",
        Tone.INFO,
        QUIET,
        FactCounter("Messages stored until their due time.", _TOPIC),
        books=Books.MESSAGE | Books.EVENT,
    ),
    BusKind(
        "due_refused",
        "a message whose time had come was refused; it is kept, and tried again until it is published or cancelled",
        Tone.BAD,
        _ERROR,
        FactCounter("Messages that were refused when they were due; once for each reason.", _TOPIC),
    ),
    BusKind(
        "settled",
        "a handler finished and its delivery was acknowledged",
        Tone.OK,
        QUIET,
        FactCounter("Deliveries handled and acknowledged.", _BOTH),
        timer=FactTimer("hbus_handler_seconds", "Time in the handler of settled deliveries.", "duration_us"),
        flow="settled",
        bar=Tone.OK,
        final=True,
        attempted=True,
    ),
    BusKind(
        "retried",
        "an attempt failed and another is scheduled",
        Tone.WARN,
        _INFO,
        FactCounter("Attempts that failed and were scheduled again.", _BOTH),
        flow="retried",
        bar=Tone.BAD,
        attempted=True,
    ),
    BusKind(
        "dead",
        "a message ran out of attempts, or failed for good",
        Tone.BAD,
        _ERROR,
        FactCounter("Deliveries that became dead letters.", _BOTH),
        flow="dead",
        bar=Tone.BAD,
        bar_says="dead",
        final=True,
        attempted=True,
    ),
    BusKind(
        "expired",
        "a message outlived its expiry before it could be handled",
        Tone.WARN,
        _INFO,
        FactCounter("Messages that outlived their expiry.", _BOTH),
        flow="expired",
        told="Expired before it was handled by",
        bar=Tone.WARN,
        bar_says="expired",
        final=True,
    ),
    BusKind(
        "passed",
        "a subscription is past a message, and nobody told what became of it there: its consumer was killed",
        Tone.WARN,
        _INFO,
        FactCounter("Deliveries that the store is done with, and of which nobody told.", _BOTH),
        told="Nobody told what became of it in",
        note="the store is done with it; a consumer that was killed tells nothing",
        final=True,
    ),
    BusKind(
        "lost",
        "the store no longer has a message that was not handled yet: it was emptied, or failed over to an older state",
        Tone.BAD,
        _ERROR,
        FactCounter("Messages that the store no longer has and nobody told the outcome of.", _BOTH),
        told="Lost: the store no longer has it for",
        note="it was emptied, or failed over to an older state, before anybody told what became of it",
        bar=Tone.BAD,
        bar_says="lost",
        final=True,
    ),
    BusKind(
        "cancelled",
        "a message that waited for its due time was cancelled, or its topic deleted, before it was published",
        Tone.ACT,
        _INFO,
        FactCounter("Messages that were cancelled while they waited for their due time.", _BOTH),
        told="Cancelled before its time came for",
        note="it was cancelled while it waited, or its topic was deleted",
        final=True,
    ),
    BusKind(
        "parked",
        "a message was set aside with its key, whose head failed for good",
        Tone.WARN,
        _WARNING,
        FactCounter("Messages set aside with their key.", _BOTH),
        told="Set aside with its key in",
        bar=Tone.WARN,
        bar_says="parked",
        attempted=True,
    ),
    BusKind(
        "unparked",
        "a person let the messages of a parked key come again",
        Tone.ACT,
        _INFO,
        FactCounter("Parked keys that a person let come again.", _BOTH),
        told="Its key was unparked in",
    ),
    BusKind(
        "skipped",
        "a person settled the head of a parked key without its being handled",
        Tone.ACT,
        _INFO,
        FactCounter("Heads of parked keys that a person settled unhandled.", _BOTH),
        told="Skipped, settled without having been handled, in",
        final=True,
    ),
    BusKind(
        "released",
        "a delivery was handed back unhandled",
        Tone.INFO,
        QUIET,
        FactCounter("Deliveries handed back unhandled.", _BOTH),
        told="Handed back unhandled by",
    ),
    BusKind(
        "lease_lost",
        "a consumer found that a delivery it held was given to another",
        Tone.WARN,
        _WARNING,
        FactCounter("Deliveries that were given to another consumer while one held them.", _BOTH),
        told="The lease ran out in",
        note="another consumer has it now",
        bar=Tone.WARN,
        bar_says="lease lost",
    ),
    BusKind(
        "redriven",
        "a dead letter was published again as a new message",
        Tone.ACT,
        _INFO,
        FactCounter("Dead letters published again.", _BOTH),
    ),
    BusKind(
        "replayed",
        "a message was published again by a replay; detail names the copy",
        Tone.ACT,
        _INFO,
        FactCounter("Messages published again by a replay.", _BOTH),
    ),
    BusKind(
        "discarded",
        "a person discarded a dead letter",
        Tone.ACT,
        _INFO,
        FactCounter("Dead letters that a person discarded.", _BOTH),
    ),
    BusKind(
        "breaker_opened",
        "failures look like an outage, or a person said so: nothing is delivered for a while",
        Tone.BAD,
        _ERROR,
        FactCounter("Breakers that opened.", _BOTH),
        books=Books.NOTICE,
    ),
    BusKind(
        "breaker_probing",
        "the breaker lets one message through, to be tried",
        Tone.WARN,
        _INFO,
        FactCounter("Breakers that let one message through.", _BOTH),
        books=Books.NOTICE,
    ),
    BusKind(
        "breaker_closed",
        "deliveries flow again",
        Tone.OK,
        _INFO,
        FactCounter("Breakers that closed.", _BOTH),
        books=Books.NOTICE,
    ),
    BusKind(
        "group_lost",
        "a subscription's state had vanished from the store and was made anew at its last known position",
        Tone.BAD,
        _ERROR,
        FactCounter("Subscriptions whose state had vanished from the store.", _BOTH),
        calls_for_a_person="{place} had lost its place in the store",
        books=Books.NOTICE,
    ),
    BusKind(
        "vanished",
        "messages were gone from the store before they were settled, and no copy is left; size says how many",
        Tone.BAD,
        _ERROR,
        FactCounter("Messages gone from the store before they were settled.", _BOTH, adds="size"),
        calls_for_a_person="Messages of {place} were lost: the store has forgotten them",
        books=Books.NOTICE,
    ),
    BusKind(
        "retention_held",
        "retention wanted to trim what a subscription has not settled, and did not",
        Tone.WARN,
        _WARNING,
        FactCounter("Times that retention waited for a subscription.", _BOTH),
        calls_for_a_person="Retention of {namespace} waits for {name}",
        over_with="retention_free",
        unnamed="a subscription",
        books=Books.NOTICE,
    ),
    BusKind(
        "retention_free",
        "retention no longer waits for a subscription",
        Tone.OK,
        _INFO,
        FactCounter("Times that retention no longer waited for a subscription.", _TOPIC),
        books=Books.NOTICE,
    ),
    BusKind(
        "trimmed",
        "settled messages were removed by retention",
        Tone.INFO,
        QUIET,
        FactCounter("Messages removed by retention.", _TOPIC, adds="size"),
        books=Books.NOTICE,
    ),
    BusKind(
        "store_lost",
        "the store could not be reached",
        Tone.BAD,
        _ERROR,
        FactCounter("Times that the store could not be reached.", _BOTH),
        books=Books.NOTICE,
    ),
    BusKind(
        "out_of_connections",
        "no connection to the store was left",
        Tone.BAD,
        _ERROR,
        FactCounter("Times that no connection to the store was left.", _BOTH),
        books=Books.NOTICE,
    ),
    BusKind(
        "store_back",
        "the store answers again",
        Tone.OK,
        _INFO,
        FactCounter("Times that the store answered again.", _BOTH),
        books=Books.NOTICE,
    ),
)

FACTS = FactCatalog("bus", KINDS, BusFields, _BOTH, read_rows)

#: By name.
BUS_KINDS: Mapping[str, BusKind] = {kind.name: kind for kind in KINDS}
#: After one of these a subscription is done with a message; these tell of a handler that was tried.
FINAL = tuple(kind.name for kind in KINDS if kind.final)
ATTEMPTED = tuple(kind.name for kind in KINDS if kind.attempted)
