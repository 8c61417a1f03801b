"""What needs a person: one thing of it, and what all who look for it share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from engine.core.subject import Subject
from hbus_console.access.permissions import Actor, visible_scopes

_Thing = TypeVar("_Thing")
#: How many concerns of one kind are spelled out; the rest is one line.
MOST_OF_A_KIND = 4
#: And how many of those in whose lines other troubles are told.
MOST_INCIDENTS = 12
#: How long something that happened once stays on the list.
NOTICED_MS = 6 * 3600 * 1000


#: How many of a kind are looked at for what belongs together, before the rest is one line.
MOST_JOINED = 100


@dataclass(frozen=True)
class Incident:
    """What a concern tells of. Concerns about one subject that come from one cause are one incident, and one line."""

    subject: Subject
    #: What it comes from, the same for all who know it, such as the fingerprint of a failure. Empty: it follows from
    #: whatever else is wrong with the subject.
    cause: str = ""


@dataclass(frozen=True, eq=False)
class Kin:
    """Concerns of one kind, and how those of them are listed that have a line of their own."""

    say: Callable[[list[Concern]], list[Concern]]


@dataclass(frozen=True)
class Concern:
    """One sentence, a line of why and since when, and where to go."""

    tone: str
    text: str
    note: str
    href: str
    link: str
    #: Where it stands among those of the same urgency, the smallest first: see :func:`at`.
    place: int = 100
    #: What it tells of; without one it stands alone.
    incident: Incident | None = None
    #: The few words that are left of it in another line of its incident.
    aside: str = ""
    #: It repeats what others may tell better, and leads its incident only when nobody does.
    echo: bool = False
    kin: Kin | None = None
    #: Whether others of its incident are told in its line.
    joined: bool = False

    @property
    def urgency(self) -> int:
        return {"bad": 0, "warn": 1}.get(self.tone, 2)

    @property
    def order(self) -> tuple[int, int]:
        """The worst first, otherwise by its place."""
        return self.urgency, self.place


class Look:
    """One look at what needs ``actor`` now, by all features together.

    What several of them want to know is read once: whoever knows how to read it has a function of a look for it, and
    everybody asks for that by :meth:`once`. ``known`` is what has been read already. Not for several threads.
    """

    def __init__(self, actor: Actor, now_ms: int, known: Mapping[Callable[[Look], Any], Any] | None = None) -> None:
        self.actor = actor
        self.now_ms = now_ms
        self._known = dict(known or {})

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """What ``actor`` may see."""
        return visible_scopes(self.actor)

    def once(self, read: Callable[[Look], _Thing]) -> _Thing:
        """``read(self)``, however often it is asked for."""
        if read not in self._known:
            self._known[read] = read(self)
        found: _Thing = self._known[read]
        return found


def at(place: int, concerns: Iterable[Concern]) -> list[Concern]:
    """``concerns`` with their place in the list."""
    return [replace(concern, place=place) for concern in concerns]


def spell(
    things: Sequence[_Thing],
    say: Callable[[_Thing], Concern],
    more: Concern | None = None,
    finish: Callable[[list[Concern]], list[Concern]] = list,
) -> list[Concern]:
    """A line for each thing, of which :func:`listed` leaves a few and ``more`` for all further ones.

    Where other troubles are told in a line, it is one of the few: who leaves it out would leave out what they tell.
    ``finish`` is given the lines that are left, to add what would cost too much for all.
    """

    def few(lines: list[Concern]) -> list[Concern]:
        joined = [line for line in lines if line.joined]
        plain = [line for line in lines if not line.joined]
        kept = {id(line) for line in [*joined[:MOST_INCIDENTS], *plain[: max(0, MOST_OF_A_KIND - len(joined))]]}
        left = [line for line in lines if id(line) in kept]
        rest = [_rest(more, lines[0].place, len(joined) - MOST_INCIDENTS)] if more and len(left) < len(lines) else []
        return [*finish(left), *rest]

    kin = Kin(few)
    return [replace(say(thing), kin=kin) for thing in things[:MOST_JOINED]]


def _rest(more: Concern, place: int, joined: int) -> Concern:
    note = f"with {joined:,} of them more is wrong" if joined > 0 else ""
    return replace(more, place=place, note=" · ".join(part for part in (more.note, note) if part))


def listed(concerns: Iterable[Concern]) -> list[Concern]:
    """``concerns`` as people read them: one line an incident, a few of each kind, the worst first.

    An incident is led by the concern that knows its cause, and of several by the first of the list; the others add
    their :attr:`~Concern.aside` to its note, and it is as urgent as the most urgent of them. What follows from whatever
    is wrong with a subject joins the first incident of that subject.
    """
    found: list[Concern] = []
    kins: dict[Kin, list[Concern]] = {}
    for concern in _joined(sorted(concerns, key=lambda each: each.order)):
        kins.setdefault(concern.kin or Kin(list), []).append(concern)
    for kin, lines in kins.items():
        found += kin.say(lines)
    return sorted(found, key=lambda each: each.order)


def _joined(ordered: Sequence[Concern]) -> list[Concern]:
    first_cause: dict[Subject, str] = {}
    for each in ordered:
        if each.incident and each.incident.cause:
            first_cause.setdefault(each.incident.subject, each.incident.cause)
    lines: list[Concern] = []
    incidents: dict[Incident, list[Concern]] = {}
    for each in ordered:
        if each.incident is None:
            lines.append(each)
        else:
            subject = each.incident.subject
            whole = Incident(subject, each.incident.cause or first_cause.get(subject, ""))
            incidents.setdefault(whole, []).append(each)
    lines += [_one(incident, found) for incident, found in incidents.items()]
    return sorted(lines, key=lambda each: each.order)


def _one(incident: Incident, found: Sequence[Concern]) -> Concern:
    lead = min(found, key=lambda each: (not (each.incident and each.incident.cause), each.echo, each.order))
    asides = dict.fromkeys(each.aside for each in found if each is not lead)
    return replace(
        lead,
        incident=incident,
        tone=found[0].tone,
        place=min(each.place for each in found),
        joined=len(found) > 1,
        note=" · ".join(part for part in (lead.note, *asides) if part),
    )
