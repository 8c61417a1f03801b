"""Nodes that share a limit, on a clock that a test moves, behind wires that it cuts."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.quota import Book, QuotaNode, Rule
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.protocol import Alloc, KeptRule, Want

#: The longest step of the clock, in seconds.
STEP_S = 0.005


class Wire:
    """A control plane behind a connection that may be cut, before or after the question has come through."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.cut = False
        self.answers_lost = False
        #: It answers what is read, and refuses what is to be written.
        self.read_only = False
        self.wants = 0

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        self._look()
        self._look_writes()
        self.wants += len(wants)
        answers = self._plane.want(wants)
        if self.answers_lost:
            raise Unavailable("The answer was lost.")
        return answers

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        self._look()
        self._look_writes()
        return self._plane.keep_rules(book, rules)

    def version(self) -> int:
        self._look()
        return self._plane.version()

    def book(self) -> KeptBook | None:
        self._look()
        return self._plane.book()

    def _look(self) -> None:
        if self.cut:
            raise Unavailable("The wire is cut.")

    def _look_writes(self) -> None:
        if self.read_only:
            raise Unavailable("It takes nothing that is to be written.")


class Cluster:
    """So many nodes at which ``demand`` tokens a second are asked for, spread evenly unless told otherwise."""

    def __init__(self, nodes: int, rules: Sequence[Rule], *, seed: int = 1) -> None:
        self.clock = ManualClock()
        self.plane = MemoryControlPlane(self.clock)
        self.book = Book(version=1, rules=tuple(rules), nodes=nodes)
        self.plane.keep_rules(*self.book.kept())
        self.wires = [Wire(self.plane) for _ in range(nodes)]
        self.nodes = [self._node(number, wire, seed) for number, wire in enumerate(self.wires)]
        self.admitted = [0] * nodes
        self._asked = [0.0] * nodes

    def run(self, seconds: float, demand: float | Sequence[float], tenant: str = "t") -> int:
        """Ask for so long; how many were admitted in all."""
        demands = [demand / len(self.nodes)] * len(self.nodes) if isinstance(demand, int | float) else list(demand)
        before = sum(self.admitted)
        for _ in range(round(seconds / STEP_S)):
            for number, node in enumerate(self.nodes):
                limiter = node.limiter("api", "search", tenant)
                self._asked[number] += demands[number] * STEP_S
                while self._asked[number] >= 1:
                    self._asked[number] -= 1
                    self.admitted[number] += limiter.reserve(1, 0).ok
                node.turn()
            self.clock.advance(STEP_S)
        return sum(self.admitted) - before

    def publish(self, *rules: Rule) -> None:
        """A newer version of the rules."""
        self.book = Book(version=self.book.version + 1, rules=rules, nodes=len(self.nodes))
        self.plane.keep_rules(*self.book.kept())

    def _node(self, number: int, wire: Wire, seed: int) -> QuotaNode:
        node = QuotaNode(f"n{number}", wire, clock=self.clock, rng=random.Random(seed * 1000 + number))
        node.turn()
        return node
