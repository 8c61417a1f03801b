"""Plays traffic against a rule: real nodes and the real allocator, on a clock that goes as fast as it can.

Nothing of a limiter is built again here, so what is drawn is what would happen, but for the times of a network.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.core.errors import BadInput, Unavailable
from engine.quota.book import Book, Rule
from engine.quota.distributed import DistributedLimiter
from engine.quota.node import QuotaNode
from engine.quota.periods import Period
from engine.quota.plane import KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.protocol import Alloc, KeptRule, Want
from engine.quota.trial.traffic import Traffic

#: Calls, nodes and seconds of one trial, and into how many slots its time is cut.
MOST_CALLS, MOST_NODES, MOST_SECONDS, SLOTS = 12_000, 16, 3_600.0, 120
#: Seconds of all nodes together: each is looked after all the time, whether anybody asks it or not.
MOST_NODE_SECONDS = 1_800.0
#: How often a node that nobody asks looks whether anything is due, in seconds.
_TURN_S = 0.05


@dataclass
class TrialPart:
    """Calls that came within one part of the time."""

    asked: int = 0
    admitted: int = 0
    #: Of those admitted: who had to wait.
    delayed: int = 0
    refused: int = 0


@dataclass
class Trial:
    """What became of the calls. ``allowed`` are those that the rule lets through in that time, one burst included."""

    traffic: Traffic
    slot_s: float
    allowed: float
    slots: list[TrialPart] = field(default_factory=list)
    longest_wait_s: float = 0.0

    @property
    def total(self) -> TrialPart:
        return TrialPart(
            sum(slot.asked for slot in self.slots),
            sum(slot.admitted for slot in self.slots),
            sum(slot.delayed for slot in self.slots),
            sum(slot.refused for slot in self.slots),
        )


def try_out(
    rule: Rule, traffic: Traffic, *, max_wait_s: float = 0.0, nodes: int = 1, cut: tuple[float, float] | None = None
) -> Trial:
    """One tenant's calls, one node after the other in turns; a call waits up to ``max_wait_s``. ``cut``: from when to
    when the control plane is away, in seconds from the beginning; what it sold before is spent, and then each node
    stands in as the rule says.

    Raises :class:`BadInput` for what cannot be tried. The same arguments have the same answer.
    """
    _check(rule, traffic, nodes)
    clock = _TrialClock()
    plane = _CutPlane(clock, cut)
    whole = {"service": "*", "resource": "*", "tenant": "*", "plan": "", "shadow": False, "sample": 1.0}
    book = Book(version=1, rules=(Rule(**{name: getattr(rule, name) for name in rule.__struct_fields__} | whole),))
    plane.keep_rules(*book.kept())
    made = [
        QuotaNode(f"node-{number}", plane, clock=clock, rng=random.Random(number), book=book)  # noqa: S311
        for number in range(nodes)
    ]
    limiters = [node.limiter("", "", "tenant") for node in made]
    slot_s = traffic.seconds / SLOTS
    found = Trial(traffic, slot_s, _allowed(rule, traffic, max_wait_s), [TrialPart() for _ in range(SLOTS)])
    for number, moment in enumerate(traffic.moments()):
        _pass(clock, made, moment)
        slot = found.slots[min(SLOTS - 1, int(moment / slot_s))]
        slot.asked += 1
        delay = _ask(made[number % nodes], limiters[number % nodes], traffic.tokens, max_wait_s)
        if delay is None:
            slot.refused += 1
            continue
        slot.admitted += 1
        slot.delayed += delay > 0
        found.longest_wait_s = max(found.longest_wait_s, delay)
    return found


def _check(rule: Rule, traffic: Traffic, nodes: int) -> None:
    if rule.period is Period.AT_ONCE:
        raise BadInput(
            "How many are served at once depends on how long each takes, which no shape tells.",
            remedy="Choose a policy of tokens.",
            field="policy",
        )
    if not 0 < traffic.seconds <= MOST_SECONDS:
        raise BadInput(
            f"It cannot be played for {traffic.seconds:g} s.",
            remedy=f"Use up to {MOST_SECONDS:,.0f} s.",
            field="seconds",
        )
    if not 1 <= nodes <= MOST_NODES:
        raise BadInput(f"{nodes} nodes cannot be played.", remedy=f"Use 1 to {MOST_NODES}.", field="nodes")
    if nodes * traffic.seconds > MOST_NODE_SECONDS:
        raise BadInput(
            f"{nodes} nodes are too many for {traffic.seconds:g} s.",
            remedy=f"Play them for up to {MOST_NODE_SECONDS / nodes:,.0f} s, or fewer.",
            field="nodes",
        )
    if traffic.calls > MOST_CALLS:
        raise BadInput(
            f"These are about {traffic.calls:,.0f} calls.",
            remedy=f"Play up to {MOST_CALLS:,}: fewer a second, or for a shorter time.",
            field="rate",
        )


def _allowed(rule: Rule, traffic: Traffic, max_wait_s: float) -> float:
    """Until the last that waits is served. Who asks for more than the burst is never served."""
    if not rule.by_calendar and traffic.tokens > rule.burst:
        return 0.0
    rate = 0.0 if rule.by_calendar else rule.limit
    return (rate * (traffic.seconds + max_wait_s) + rule.room()) / max(1, traffic.tokens)


def _pass(clock: _TrialClock, nodes: Sequence[QuotaNode], moment: float) -> None:
    """Let time pass until then, with everything that is due on the way."""
    while clock.now < moment:
        clock.now = min(moment, clock.now + _TURN_S)
        for node in nodes:
            node.turn()


def _ask(node: QuotaNode, limiter: DistributedLimiter, tokens: int, max_wait_s: float) -> float | None:
    """How long it waits; ``None``: it is refused. A node that holds nothing asks first, as its thread would."""
    for _ in range(2):
        reserved = limiter.reserve(tokens, max_wait_s)
        if reserved.ok:
            return reserved.delay_s
        node.turn()
    return None


class _TrialClock:
    """Seconds that somebody else moves; nobody waits by it."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.is_set()


class _CutPlane:
    """A control plane that was made long ago, so that its buckets are full, and is away for a while."""

    def __init__(self, clock: _TrialClock, cut: tuple[float, float] | None) -> None:
        self._clock = clock
        self._cut = cut or (math.inf, math.inf)
        moments = iter([-1e9])
        self._inner = MemoryControlPlane(now=lambda: next(moments, self._clock.now))

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        return self._reached().want(wants)

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        return self._reached().keep_rules(book, rules)

    def version(self) -> int:
        return self._reached().version()

    def book(self) -> KeptBook | None:
        return self._reached().book()

    def _reached(self) -> MemoryControlPlane:
        if self._cut[0] <= self._clock.now < self._cut[1]:
            raise Unavailable("The control plane is away, as it was asked for.")
        return self._inner
