"""`manage.py bench cron`: expressions and schedules beside their peers, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
#: As many entries as beat can bear, all due at once.
BEAT = 1_000


@dataclass
class CronRig:
    """One run: its folder and store, and its size."""

    folder: Path
    store: StandaloneStore
    schedules: int
    samples: int

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
    what = f"{BEAT:,} and {AT_ONCE:,} slots of one second, started a second"
    yield Measurement(what, lambda: _at_once(rig, what))
    spread = f"lateness of {rig.schedules:,} schedules over a minute"
    yield Measurement(spread, lambda: _spread(rig, spread))


def _at_once(rig: CronRig, what: str) -> Row:
    """How many of those that are due in one second are started in each second until all are; beat with fewer."""
    ours = [rig.node(AT_ONCE, 0) for _ in range(rig.samples)]
    task = {"url": rig.store.url, "count": BEAT}
    theirs = median(_measured("hbus_console.bench.peers.beat", task)["took_s"] for _ in range(rig.samples))
    most_ms = median(each["most"] for each in ours)
    mine, other = AT_ONCE / most_ms * 1000, BEAT / theirs
    return Row(
        AREA,
        what,
        "/s",
        mine,
        f"Celery beat, {BEAT:,} entries",
        other,
        mine / other,
        ALL_WITHIN_MS,
        most_ms < ALL_WITHIN_MS,
        rig.samples,
        f"{rig.conditions}; the last of {AT_ONCE:,} was started after {most_ms:,.0f} ms (goal {ALL_WITHIN_MS:,.0f})",
        median(each["p50"] for each in ours),
        median(each["p99"] for each in ours),
    )


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
