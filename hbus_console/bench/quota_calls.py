"""What one ``allow()`` costs, beside Go's and beside every limiter in Python that is worth the name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from engine.core.errors import ConfigurationError
from engine.quota import Limiter, LocalLimiter
from hbus_console.bench.loops import CallCost, alone, together
from hbus_console.bench.peers import go_rate, limiters
from hbus_console.bench.rig import Measurement
from hbus_console.bench.rows import Row, compare, missing

AREA = "quota"
#: The most that a call may cost, in calls of Go's.
GOAL_PERMITS, GOAL_LOCAL = 0.6, 3.0
#: Faster than any in Python.
GOAL_PYTHON = 1.0
THREADS = 8
#: Neighbours come and go: each run is so many short rounds, ours and theirs in turn.
ROUNDS = 7


@dataclass(frozen=True)
class _CallsBeside:
    """One row: ours and a peer's, each a function that says what a call cost it in one round."""

    what: str
    ours: Callable[[], CallCost]
    peer: str
    theirs: Callable[[], float]
    ready: Callable[[], object]
    goal: float
    rounds: int
    conditions: str

    def measure(self) -> Row:
        refused: list[int] = []

        def ours() -> float:
            cost = self.ours()
            refused.append(cost.refused)
            return cost.ns

        said = (
            f"{self.conditions}, loop subtracted, collector off; "
            f"the ratio is ours to theirs, and the goal the most it may be"
        )
        try:
            self.ready()
        except ConfigurationError as error:
            return missing(
                AREA, self.what, "ns", ours=ours(), peer=self.peer, why=error.what, conditions=said, goal=self.goal
            )
        row = compare(
            AREA,
            self.what,
            "ns",
            ours=ours,
            peer=self.peer,
            theirs=self.theirs,
            samples=self.rounds,
            conditions=said,
            goal=self.goal,
        )
        # Where an answer of the control plane is later than a caller's patience.
        return replace(row, conditions=f"{said}; {sum(refused):,} of ours were refused") if any(refused) else row


def measurements(
    *, permits: Callable[[], Limiter], local: LocalLimiter, calls: int, samples: int, conditions: str
) -> Iterator[Measurement]:
    """``permits`` makes ready the limiter that is fed by a control plane."""
    rounds = samples * ROUNDS
    kinds: tuple[tuple[str, Callable[[], Limiter], float], ...] = (
        ("allow() with permits", permits, GOAL_PERMITS),
        ("LocalLimiter.allow()", lambda: local, GOAL_LOCAL),
    )
    for threads, cpu in ((1, "thread CPU"), (THREADS, "CPU of the whole process")):
        many, theirs = ("s", f", {threads} goroutines") if threads > 1 else ("", "")
        for kind, ready, goal in kinds:
            row = _CallsBeside(
                f"{kind}, {threads} thread{many}, beside Go",
                partial(_ours, ready, calls * threads, threads),
                f"{go_rate.NAME}{theirs}",
                partial(go_rate.allow_ns, calls * threads, threads),
                go_rate.build,
                goal,
                rounds,
                f"{conditions}; {cpu}, {calls:,} calls a thread and round",
            )
            yield Measurement(row.what, row.measure)
    for name, peer in limiters.PEERS.items():
        fewer = max(1, calls // peer.dearer)
        row = _CallsBeside(
            f"LocalLimiter.allow(), 1 thread, beside {name}",
            partial(alone, local.allow, calls),
            f"{name}, {peer.form}",
            partial(_theirs, peer.measure, fewer),
            partial(limiters.check, name),
            GOAL_PYTHON,
            rounds,
            f"{conditions}; thread CPU, {calls:,} calls a round, {fewer:,} of theirs",
        )
        yield Measurement(row.what, row.measure)


def _ours(ready: Callable[[], Limiter], calls: int, threads: int) -> CallCost:
    allow = ready().allow
    return alone(allow, calls) if threads == 1 else together(allow, calls, threads)


def _theirs(measure: Callable[[int], CallCost], calls: int) -> float:
    return measure(calls).ns
