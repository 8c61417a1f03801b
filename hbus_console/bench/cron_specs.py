"""The next slot of an expression, beside croniter and cronsim."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from engine.core.errors import ConfigurationError
from engine.cron.expression import compile_schedule
from hbus_console.bench.rig import Measurement
from hbus_console.bench.rows import Row, compare, missing

AREA = "cron"
#: What people write, and all three read alike.
SPECS = ("*/5 * * * *", "0 3 * * *", "30 9 * * 1-5", "0 0 1 * *", "15 14 1 * 5", "0 */2 * * *")
ZONE = "Europe/Lisbon"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: Slots of each expression in one run.
SLOTS = 400
#: Both do the same work a slot and keep their object from one to the next.
GOAL = 3.0


@dataclass(frozen=True)
class _Beside:
    """One row: ours and a peer's, each a function that says how often it did the work."""

    what: str
    peer: str
    ours: Callable[[], int]
    theirs: Callable[[], int]
    samples: int
    conditions: str
    goal: float | None = None

    def measure(self) -> Row:
        said: dict[str, Any] = {"conditions": self.conditions, "goal": self.goal}
        # What is loaded on first use is loaded for both.
        self.ours()
        try:
            self.theirs()
        except ConfigurationError as error:
            return missing(AREA, self.what, "/s", ours=_rate(self.ours), peer=self.peer, why=error.what, **said)
        return compare(
            AREA,
            self.what,
            "/s",
            ours=lambda: _rate(self.ours),
            peer=self.peer,
            theirs=lambda: _rate(self.theirs),
            samples=self.samples,
            **said,
        )


def measurements(samples: int, conditions: str) -> Iterator[Measurement]:
    """Slots a second of a compiled expression, and expressions compiled a second with the first slot of each."""
    said = f"{conditions}; {len(SPECS)} expressions in {ZONE}, {SLOTS} slots each"
    following, compiled = "next slot of a compiled expression", "an expression compiled and its first slot"
    for row in (
        _Beside(f"{following}, beside croniter", "one object reused", _next_slots, _croniter, samples, said, GOAL),
        _Beside(f"{following}, beside cronsim", "one object reused", _next_slots, _cronsim, samples, said),
        _Beside(f"{compiled}, beside croniter", "croniter", _compiled, _new_croniter, samples, said),
        _Beside(f"{compiled}, beside cronsim", "cronsim", _compiled, _new_cronsim, samples, said),
    ):
        yield Measurement(row.what, row.measure)


def _rate(work: Callable[[], int]) -> float:
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)


def _next_slots() -> int:
    at = int(BEGIN.timestamp())
    for spec in SPECS:
        for _ in islice(compile_schedule(spec, zone_name=ZONE).slots(at), SLOTS):
            pass
    return SLOTS * len(SPECS)


def _compiled() -> int:
    at = int(BEGIN.timestamp())
    for _ in range(SLOTS):
        for spec in SPECS:
            compile_schedule(spec, zone_name=ZONE).after(at)
    return SLOTS * len(SPECS)


def _croniter_of(spec: str) -> Any:
    try:
        # What is measured beside may be missing, and then its rows say so.
        from croniter import croniter
    except ImportError as error:
        raise _not_installed("croniter") from error
    return croniter(spec, BEGIN.astimezone(ZoneInfo(ZONE)))


def _cronsim_of(spec: str) -> Iterator[datetime]:
    try:
        # As above.
        from cronsim import CronSim
    except ImportError as error:
        raise _not_installed("cronsim") from error
    found: Iterator[datetime] = CronSim(spec, BEGIN.astimezone(ZoneInfo(ZONE)))
    return found


def _not_installed(peer: str) -> ConfigurationError:
    return ConfigurationError(f"{peer} is not installed.", remedy="Install requirements-dev.txt.", field="peer")


def _croniter() -> int:
    for spec in SPECS:
        slots = _croniter_of(spec)
        for _ in range(SLOTS):
            slots.get_next(float)
    return SLOTS * len(SPECS)


def _new_croniter() -> int:
    for _ in range(SLOTS):
        for spec in SPECS:
            _croniter_of(spec).get_next(float)
    return SLOTS * len(SPECS)


def _cronsim() -> int:
    for spec in SPECS:
        for _ in islice(_cronsim_of(spec), SLOTS):
            pass
    return SLOTS * len(SPECS)


def _new_cronsim() -> int:
    for _ in range(SLOTS):
        for spec in SPECS:
            next(_cronsim_of(spec))
    return SLOTS * len(SPECS)
