"""Beside two other engines: where croniter and cronsim agree, ours gives what they give.

They disagree with each other about a star with a step beside a weekday, about gaps, about repeated hours and about what
can be written at all; ``docs/cron-semantics.md`` says what ours does there.
"""

from __future__ import annotations

import random
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim, CronSimError

from engine.cron.expression import compile_schedule
from tests.engine.cron.expression.spans import instant

NUMBER = 6
#: Specifications a zone.
TRIED = 400


def random_spec(rng: random.Random) -> str:
    def one(low: int, high: int) -> str:
        first, second = sorted(rng.sample(range(low, high + 1), 2))
        forms = ["*", "*", f"{first}", f"{first}-{second}", f"{first},{second}", f"*/{rng.randint(2, 20)}"]
        forms += [f"{first}-{second}/{rng.randint(2, 7)}", f"{first}/{rng.randint(2, 9)}"]
        return rng.choice(forms)

    numbers = rng.choice(["*", "*", "*", one(1, 28), "L", str(rng.randint(29, 31))])
    weekdays = rng.choice(["*", "*", "*", one(0, 6), "MON-FRI", "SUN", "7", f"{rng.randint(0, 6)}#{rng.randint(1, 4)}"])
    months = rng.choice(["*", "*", "*", one(1, 12), "JAN", "FEB,AUG"])
    return f"{one(0, 59)} {one(0, 23)} {numbers} {months} {weekdays}"


def by_croniter(spec: str, zone: ZoneInfo, after: int) -> list[int] | None:
    try:
        found = croniter(spec, datetime.fromtimestamp(after, tz=zone), ret_type=datetime)
        return [round(found.get_next().timestamp()) for _ in range(NUMBER)]
    except ValueError:
        return None


def by_cronsim(spec: str, zone: ZoneInfo, after: int) -> list[int] | None:
    try:
        found = CronSim(spec, datetime.fromtimestamp(after, tz=zone))
        return [round(each.timestamp()) for each in islice(found, NUMBER)]
    except (CronSimError, StopIteration):
        return None


def by_ours(spec: str, zone: str, after: int) -> list[int] | None:
    try:
        return [slot.at for slot in islice(compile_schedule(spec, zone_name=zone).slots(after), NUMBER)]
    except ValueError:
        return None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_where_two_agree_ours_agrees_with_them(zone: str) -> None:
    rng = random.Random(f"oracles {zone}")
    # Now and then before a change of the clocks.
    begins = [instant(day) for day in ("2026-03-28 12:00", "2026-10-24 12:00", "2026-10-03 06:00", "2026-03-07 18:00")]
    agreed, differing = 0, []
    for _ in range(TRIED):
        spec = random_spec(rng)
        after = rng.choice([*begins, rng.randrange(instant("2024-01-01 00:00"), instant("2030-01-01 00:00"))])
        theirs, others = by_croniter(spec, ZoneInfo(zone), after), by_cronsim(spec, ZoneInfo(zone), after)
        if theirs is None or theirs != others:
            continue
        agreed += 1
        if by_ours(spec, zone, after) != theirs:
            differing.append((spec, after, theirs, by_ours(spec, zone, after)))
    print(f"{zone}: they agree about {agreed} of {TRIED}")
    assert differing == []
    assert agreed > TRIED / 2
