"""What became of what operations made: asked of the features that keep the evidence, by the kind of its subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from engine.core.subject import Subject
from hbus_console.operations.models import OperationItem
from hbus_console.registry.loading import resolve
from hbus_console.registry.subjects import kind_named

Outcome = OperationItem.Outcome
#: What is not decided so long after the last thing was done is no longer waited for, and said to be undecided.
PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Made:
    """Something that was made, such as a copy of a message."""

    subject: Subject
    #: When.
    at: datetime
    #: Since when nobody has looked at its evidence: what is older was seen, even if it has been trimmed since.
    unseen_since: datetime
    #: Of the item that it was made of: the ``subscription`` that it is meant for alone, if there is one; and the
    #: ``source`` that it has, if it is a message.
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fate:
    """What became of it so far."""

    outcome: OperationItem.Outcome
    detail: str = ""
    #: Where it waits, if it does.
    place: Subject | None = None


def tells(subject: Subject | None) -> bool:
    """Whether what was made has an outcome of its own."""
    return subject is not None and bool(kind_named(subject.kind).outcomes)


def fates(made: Sequence[Made]) -> list[Fate]:
    """What became of each of ``made``, of which each :func:`tells`: one question for each kind among them."""
    found: dict[int, Fate] = {}
    for kind in {each.subject.kind for each in made}:
        places = [number for number, each in enumerate(made) if each.subject.kind == kind]
        told = resolve(kind_named(kind).outcomes)([made[number] for number in places])
        found.update(zip(places, told, strict=True))
    return [found[number] for number in range(len(made))]


def fate(made: Made) -> Fate | None:
    """What became of it; ``None`` for what has no outcome."""
    return fates([made])[0] if tells(made.subject) else None


def holdings(places: Iterable[Subject]) -> dict[Subject, str]:
    """What holds what waits in each of ``places``, as the end of a sentence; nothing for those that hold nothing."""
    found: dict[Subject, str] = {}
    by_kind: dict[str, list[Subject]] = {}
    for place in places:
        by_kind.setdefault(place.kind, []).append(place)
    for kind, subjects in by_kind.items():
        if declared := kind_named(kind).holding:
            found |= resolve(declared)(subjects)
    return found
