"""`manage.py bench cron`: expressions and schedules beside their peers, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from hbus_console.bench import cron_specs
from hbus_console.bench.processes import Child
from hbus_console.bench.rig import Measurement, conditions_of
from hbus_console.bench.rows import Row
from hbus_console.supervisor.standalone import StandaloneStore

AREA = cron_specs.AREA
#: Schedules that all come in one second, and within how many milliseconds the last of them is to be started.
AT_ONCE, ALL_WITHIN_MS = 10_000, 1_000.0
#: How late the latest but one in a hundred may be where schedules come all over a minute.
LATE_MS = 100.0
#: Of memory, for each schedule.
LARGEST = 1_000.0
#: As many entries as each kind of beat can bear, all due at once; and the kinds, with their programs.
BEAT = 1_000
BEATS = {"Celery beat": "hbus_console.bench.peers.beat", "redbeat": "hbus_console.bench.peers.redbeat"}


@dataclass
class CronRig:
    """One run: its folder and store, and its size."""

    folder: Path
    store: StandaloneStore
    schedules: int
    samples: int
    #: What was measured of slots of one second, in each run: a node's figures, and how long each peer took.
    at_once: list[tuple[dict[str, float], dict[str, float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conditions = f"{self.samples} runs, SQLite, {conditions_of(self.store.url)}"

    def node(self, schedules: int, seconds: int) -> dict[str, float]:
        """What one node measured of itself, on a fresh database."""
        with tempfile.TemporaryDirectory(dir=self.folder) as state:
            task = {"state": state, "url": self.store.url, "schedules": schedules, "seconds": seconds}
            return _measured("hbus_console.bench.cron_node", task)


@contextmanager
def measured(*, schedules: int, samples: int) -> Iterator[CronRig]:
    """A rig with a store of its own, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="hbus-bench-") as name:
        folder = Path(name)
        store = StandaloneStore(folder / "store").start()
        try:
            yield CronRig(folder, store, schedules, samples)
        finally:
            store.kill()


def measurements(rig: CronRig) -> Iterator[Measurement]:
    """Every row of the area, in the order of the table."""
    yield from cron_specs.measurements(rig.samples, rig.conditions)
    at_once = f"{BEAT:,} and {AT_ONCE:,} slots of one second, started a second"
    for what, peer in ((at_once, "Celery beat"), (f"{at_once}, beside redbeat", "redbeat")):
        yield Measurement(what, partial(_at_once, rig, what, peer))
    spread = f"lateness of {rig.schedules:,} schedules over a minute"
    yield Measurement(spread, lambda: _spread(rig, spread))


def _at_once(rig: CronRig, what: str, peer: str) -> Row:
    """How many of those that are due in one second are started in each second until all are; the peer with fewer."""
    # Once for the rows of all peers.
    rig.at_once = rig.at_once or [(rig.node(AT_ONCE, 0), _beats(rig)) for _ in range(rig.samples)]
    ours = [each for each, _ in rig.at_once]
    theirs = median(each[peer] for _, each in rig.at_once)
    most_ms = median(each["most"] for each in ours)
    mine, other = AT_ONCE / most_ms * 1000, BEAT / theirs
    return Row(
        AREA,
        what,
        "/s",
        mine,
        f"{peer}, {BEAT:,} entries",
        other,
        mine / other,
        ALL_WITHIN_MS,
        most_ms < ALL_WITHIN_MS,
        rig.samples,
        f"{rig.conditions}; the last of {AT_ONCE:,} was started after {most_ms:,.0f} ms (goal {ALL_WITHIN_MS:,.0f})",
        median(each["p50"] for each in ours),
        median(each["p99"] for each in ours),
    )


def _beats(rig: CronRig) -> dict[str, float]:
    """How long each peer took, in seconds."""
    task = {"url": rig.store.url, "count": BEAT}
    return {peer: _measured(program, task)["took_s"] for peer, program in BEATS.items()}


def _spread(rig: CronRig, what: str) -> Row:
    found = rig.node(rig.schedules, 60)
    holds = found["p99"] < LATE_MS and found["bytes"] < LARGEST
    said = f"{rig.conditions}; {found['bytes']:,.0f} B a schedule (goal {LARGEST:,.0f}); the goal is of the p99"
    return Row(
        AREA,
        what,
        "ms",
        found["p99"],
        "the goal alone",
        None,
        None,
        LATE_MS,
        holds,
        1,
        said,
        found["p50"],
        found["p99"],
    )


def _measured(program: str, task: dict[str, Any]) -> dict[str, float]:
    child = Child(program, task)
    child.go()
    result: dict[str, float] = child.result()
    return result
