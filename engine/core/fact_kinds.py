"""What an engine declares of its facts: the kinds there are, what each means to a person, and its own fields.

Logs, metrics, ledger, timeline, colours and the list of what needs a person all derive from here: a kind is told once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from engine.core.facts import CoreFields, FactBatch, Fields

#: The level of a kind that is counted and gets no line of its own.
QUIET = logging.NOTSET


class Tone(StrEnum):
    """The colour of a kind wherever it is shown."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    BAD = "bad"
    #: A person's act.
    ACT = "act"


@dataclass(frozen=True)
class FactCounter:
    """A Prometheus counter, ``hbus_<kind>_total``; ``says`` is its help text.

    ``labels`` are what it calls the namespace of a fact's subject, and the subject's name; or, with ``by_fields``, the
    two fields of the facts that are its labels, where subjects are too many. Each fact adds one, or what its field
    ``adds`` holds.
    """

    says: str
    labels: tuple[str, ...] = ()
    adds: str = ""
    by_fields: bool = False


@dataclass(frozen=True)
class FactTimer:
    """A Prometheus histogram of seconds, fed from a field in microseconds; labelled as the kind's counter."""

    name: str
    says: str
    field: str
    #: A 0 stands for what was not measured, and is left out.
    without_zeros: bool = False


@dataclass(frozen=True)
class FactKind:
    """One kind of fact."""

    name: str
    #: What happened, as a clause.
    sentence: str
    tone: Tone
    #: The level of its log line, or :data:`QUIET`.
    level: int
    counter: FactCounter
    #: What stands on the list of what needs a person for some hours after it, with ``{place}``, ``{namespace}``,
    #: ``{name}`` and ``{amount}`` in it. Empty when nobody is called, or when what it leads to (a dead letter, a parked
    #: key, an open breaker) stays on that list by itself until somebody has seen to it.
    calls_for_a_person: str = ""
    #: The kind of the fact, of the same namespace, that says that this is over; what was told before it is not on that
    #: list any more. Empty: it tells what happened, which does not end.
    over_with: str = ""
    #: What ``{name}`` says of a subject that has none, for it is its namespace's own entry: ``a subscription``. Empty:
    #: what it is called, such as "the job close-of-day".
    unnamed: str = ""
    timer: FactTimer | None = None
    #: Whether each is worth a row; if not it is only counted.
    booked: bool = True


def _no_rows(_: bytes) -> tuple[list[FactBatch], list[str]]:
    raise ValueError("this engine never wrote facts row by row")


@dataclass(frozen=True)
class FactCatalog:
    """All that one engine declares. Kinds are named once in an installation, whatever engine they belong to."""

    engine: str
    kinds: tuple[FactKind, ...]
    fields: type[Fields] = CoreFields
    #: What log lines call the namespace of a subject, and its name; without them a line shows the subject's text.
    labels: tuple[str, ...] = ()
    #: Reads facts that an older release wrote row by row, with a reason for each that cannot be read; raises what its
    #: decoder raises when none can.
    read_rows: Callable[[bytes], tuple[list[FactBatch], list[str]]] = field(default=_no_rows, compare=False)


#: The kinds that belong to no engine.
FACTS = FactCatalog(
    "core",
    (
        FactKind(
            "facts_dropped",
            "evidence was dropped because its queue was full; detail says how much",
            Tone.WARN,
            logging.WARNING,
            FactCounter("Evidence dropped because its queue was full.", adds="amount"),
            calls_for_a_person="{amount} facts of evidence were dropped",
        ),
    ),
)
