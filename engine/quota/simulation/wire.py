"""What lies between a process and the control plane, and what befalls it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from engine.core.errors import Unavailable
from engine.quota.plane import KeptBook
from engine.quota.protocol import MOST_TOKENS, Alloc, KeptRule, Want
from engine.quota.simulation.plane import ModelPlane
from engine.quota.simulation.timeline import Timeline

Answer = TypeVar("Answer")

#: The longest that a question or an answer of a slow network is under way, in seconds.
SLOWEST_S = 7.0
#: The longest that a client waits for an answer that was lost.
TIMEOUT_S = 1.0
#: What a tenant that lies says it needs, for each token that it needs.
LIE = 25


@dataclass(slots=True)
class Network:
    """What a host's connection to the control plane is like: until when it is cut, loses, or is slow."""

    cut_until: float = 0.0
    questions_lost_until: float = 0.0
    answers_lost_until: float = 0.0
    slow_until: float = 0.0
    #: Until when questions may come through long after whoever asked has given up.
    late_until: float = 0.0
    #: How long each way takes otherwise.
    takes_s: float = 0.0


class Ear(Protocol):
    """Who hears what a process asks and is told."""

    #: Whether it lives.
    dead: bool

    def asks(self, want: Want) -> None: ...

    def is_told(self, alloc: Alloc) -> None: ...


class Wire:
    """A :class:`~engine.quota.plane.ControlPlane` for one process; others go on while it waits for an answer."""

    def __init__(
        self, plane: ModelPlane, network: Network, timeline: Timeline, rng: random.Random, liars: frozenset[str]
    ) -> None:
        self._plane = plane
        self._network = network
        self._timeline = timeline
        self._rng = rng
        self._liars = liars
        self.ear: Ear | None = None

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        ear = self._ear()
        for want in wants:
            ear.asks(want)
        asked = [_exaggerated(want) if want.tenant in self._liars else want for want in wants]
        allocs = self._call(lambda: [self._plane.want(want) for want in asked])
        for alloc in allocs:
            ear.is_told(alloc)
        return allocs

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        return self._call(lambda: self._plane.keep_rules(book, rules))

    def version(self) -> int:
        return self._call(self._plane.version)

    def book(self) -> KeptBook | None:
        return self._call(self._plane.book)

    def _ear(self) -> Ear:
        assert self.ear is not None
        return self.ear

    def _call(self, act: Callable[[], Answer]) -> Answer:
        network, timeline = self._network, self._timeline
        if network.cut_until > timeline.now:
            self._fails()
        self._travel()
        if self._ear().dead or network.cut_until > timeline.now or self._is_lost(network.questions_lost_until):
            self._fails()
        if network.late_until > timeline.now and self._rng.random() < 0.4:
            timeline.add(timeline.now + self._rng.random() * SLOWEST_S, lambda: self._comes_late(act))
            self._fails()
        answer = act()
        self._travel()
        if self._ear().dead or network.cut_until > timeline.now or self._is_lost(network.answers_lost_until):
            self._fails()
        return answer

    def _comes_late(self, act: Callable[[], object]) -> None:
        if self._network.cut_until <= self._timeline.now:
            act()

    def _is_lost(self, until: float) -> bool:
        return until > self._timeline.now and self._rng.random() < 0.7

    def _travel(self) -> None:
        network, now = self._network, self._timeline.now
        takes_s = network.takes_s
        if network.slow_until > now and self._rng.random() < 0.5:
            takes_s = self._rng.random() ** 2 * SLOWEST_S
        if takes_s:
            self._timeline.run(now + takes_s)

    def _fails(self) -> None:
        if self._rng.random() < 0.5 and not self._ear().dead:
            self._timeline.run(self._timeline.now + self._rng.random() * TIMEOUT_S)
        raise Unavailable("There is no answer.")


def _exaggerated(want: Want) -> Want:
    return msgspec.structs.replace(
        want, demand=want.demand * LIE, asked=min(MOST_TOKENS, want.asked * LIE if want.asked else 0)
    )
