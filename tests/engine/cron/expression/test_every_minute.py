"""Beside the plainest reading there is: every minute around a change of the clocks, what the wall shows at it, and what
``docs/cron-semantics.md`` says becomes of it. In every zone, over expressions that seldom fire.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from datetime import datetime, timedelta
from importlib import resources
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from engine.cron.expression import FoldPolicy, GapPolicy, compile_schedule
from tests.engine.cron.expression.spans import instant, walls

MINUTE_S, HOUR_S = 60, 3600
#: How much is read around a change, and how much of it is judged: whether a time comes twice is seen from its other.
READ_S, JUDGED_S = 26 * HOUR_S, 12 * HOUR_S
#: Before 1972 some walls were off by seconds; what comes after 2030 repeats.
FIRST, LAST = instant("1972-03-01 00:00"), instant("2030-01-01 00:00")
#: The larger a change is, the rarer; the day that Samoa left out among them.
LARGE_S = 2 * HOUR_S
TRIED = 100
#: The offsets of the two occurrences of a repeated hour.
NEW_YORK, GALAPAGOS = [(4, "first"), (5, "second")], [(5, "first"), (6, "second")]


class Change(NamedTuple):
    zone: str
    at: int
    before: int
    after: int


def rules(name: str) -> tuple[ZoneInfo, bytes]:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        raw = file.read()
        file.seek(0)
        return ZoneInfo.from_file(file), raw


def offset(of: ZoneInfo, at: int) -> int:
    found = datetime.fromtimestamp(at, tz=of).utcoffset()
    assert found is not None
    return round(found.total_seconds())


def changes() -> list[Change]:
    """Each change that any zone has, as its file lists them (RFC 8536), once where zones share it."""
    found: dict[tuple[int, int, int], Change] = {}
    for name in resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split():
        of, raw = rules(name)
        # The second block, whose times have 64 bits, comes behind the first and a header of its own.
        sizes = struct.unpack(">6l", raw[20:44])
        first = sum(count * size for count, size in zip(sizes, (1, 1, 8, 5, 6, 1), strict=True))
        number = struct.unpack(">6l", raw[44 + first + 20 : 44 + first + 44])[3]
        for at in struct.unpack_from(f">{number}q", raw, 44 + first + 44):
            if FIRST < at < LAST and (before := offset(of, at - 1)) != (after := offset(of, at)):
                found.setdefault((at, before, after), Change(name, at, before, after))
    return list(found.values())


def minutes(of: ZoneInfo, change: Change) -> dict[int, datetime]:
    """What the wall shows at each minute."""
    begin = change.at - READ_S
    return {
        at: datetime.fromtimestamp(at, tz=of).replace(tzinfo=None, fold=0)
        for at in range(begin - begin % MINUTE_S, change.at + READ_S, MINUTE_S)
    }


class Fields(NamedTuple):
    """An expression as sets; ``days`` is of the month, or of the week (0 is Sunday), as its text says."""

    spec: str
    minutes: frozenset[int]
    hours: frozenset[int]
    by_number: frozenset[int]
    by_weekday: frozenset[int]
    months: frozenset[int]

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        return wall.day in self.by_number and wall.isoweekday() % 7 in self.by_weekday


def seldom(rng: random.Random, wall: datetime) -> Fields:
    """One that fires near ``wall``, and otherwise each week, month or year."""
    step = rng.choice([7, 20, 30])
    some = sorted(rng.sample(range(60), 2))
    text, minute = rng.choice(
        [(f"*/{step}", range(0, 60, step)), (f"{some[0]},{some[1]}", some), (str(wall.minute), [wall.minute])]
    )
    first = wall.hour - wall.hour % 2
    hours, hour = rng.choice([(str(wall.hour), [wall.hour]), (f"{first}-{first + 1}", [first, first + 1])])
    all_days, all_weekdays, all_months = range(1, 32), range(7), range(1, 13)
    weekday = wall.isoweekday() % 7
    behind, by_number, months, by_weekday = rng.choice(
        [
            (f"* * {weekday}", all_days, all_months, [weekday]),
            (f"{wall.day} * *", [wall.day], all_months, all_weekdays),
            (f"{wall.day} {wall.month} *", [wall.day], [wall.month], all_weekdays),
            (f"* {wall.month} {weekday}", all_days, [wall.month], [weekday]),
        ]
    )
    sets = [frozenset(each) for each in (minute, hour, by_number, by_weekday, months)]
    return Fields(f"{text} {hours} {behind}", *sets)


def expected(fields: Fields, gap: GapPolicy, fold: FoldPolicy, change: Change, shown: dict[int, datetime]) -> list[int]:
    """By the rules of the page, minute for minute."""
    found = {at for at, wall in shown.items() if fields.matches(wall)}
    spaced = fields.spec.startswith("*")
    if not spaced:
        times = Counter(shown.values())
        twice = [at for at in found if times[shown[at]] > 1]
        first = {wall: at for at, wall in reversed(shown.items())}
        last = {wall: at for at, wall in shown.items()}
        if fold is not FoldPolicy.BOTH:
            at_which = first if fold is FoldPolicy.FIRST else last
            found -= {at for at in twice if at_which[shown[at]] != at}
        left_out = (
            datetime(1970, 1, 1) + timedelta(seconds=seconds)  # noqa: DTZ001 - on the wall
            for seconds in range(change.at + change.before, change.at + change.after, MINUTE_S)
        )
        if gap is GapPolicy.END and any(fields.matches(wall) for wall in left_out):
            found.add(change.at)
    return sorted(at for at in found if abs(at - change.at) < JUDGED_S)


def test_around_every_kind_of_change() -> None:
    rng = random.Random("every minute")
    known = changes()
    large = [each for each in known if abs(each.after - each.before) > LARGE_S]
    differing, slots = [], 0
    for change in [*large, *rng.sample(known, TRIED)]:
        shown = minutes(rules(change.zone)[0], change)
        for _ in range(6):
            # Within what the change leaves out or repeats, or beside it.
            near = change.at + rng.randrange(-7200, 7200, 60) + rng.choice([change.before, change.after])
            fields = seldom(rng, datetime(1970, 1, 1) + timedelta(seconds=near))  # noqa: DTZ001 - on the wall
            gap, fold = rng.choice(list(GapPolicy)), rng.choice(list(FoldPolicy))
            schedule = compile_schedule(fields.spec, zone_name=change.zone, gap=gap, fold=fold)
            wanted = expected(fields, gap, fold, change, shown)
            slots += len(wanted)
            begin, end = change.at - JUDGED_S, change.at + JUDGED_S
            ours = [slot.at for slot in takewhile(lambda slot: slot.at < end, schedule.slots(begin))]  # noqa: B023
            # From an instant within it as well, where the search begins behind the first of two.
            inside = change.at + rng.randrange(-HOUR_S, HOUR_S)
            next_one = next((at for at in wanted if at > inside), None)
            if ours != wanted or (next_one is not None and schedule.next_after(inside) != next_one):
                differing.append((change, fields.spec, gap.value, fold.value, wanted, ours))
    print(f"{len(known)} changes, {len(large)} of them large; {slots} slots")
    assert differing == []
    assert slots > 500


@pytest.mark.parametrize(
    ("spec", "zone", "after", "fold", "wanted"),
    [
        (
            "*/20 1 * * SUN",
            "America/New_York",
            "2026-11-01 04:00",
            FoldPolicy.FIRST,
            [f"11-01 01:{minute}:00-0{hour}:00 {mark}" for hour, mark in NEW_YORK for minute in ("00", "20", "40")],
        ),
        (
            "30 2 25 10 *",
            "Europe/Berlin",
            "2026-01-01 00:00",
            FoldPolicy.BOTH,
            ["10-25 02:30+02:00 first", "10-25 02:30+01:00 second"],
        ),
        (
            "30 1 * * SUN",
            "America/New_York",
            "2026-11-01 05:45",
            FoldPolicy.LAST,
            ["11-01 01:30:00-05:00 second"],
        ),
        # A block of spans begins within the hour that is repeated.
        (
            "0,30 20 10 3 *",
            "Pacific/Easter",
            "1973-01-01 00:00",
            FoldPolicy.LAST,
            ["03-10 20:00:00-07:00 second", "03-10 20:30:00-07:00 second"],
        ),
        # The hour is repeated before midnight, and the day with it.
        (
            "27,34 * * * 2",
            "Pacific/Galapagos",
            "1986-01-01 04:20",
            FoldPolicy.BOTH,
            [f"12-31 23:{minute}:00-0{hour}:00 {mark}" for hour, mark in GALAPAGOS for minute in (27, 34)],
        ),
    ],
)
def test_what_comes_again_before_a_next_one_far_off(
    spec: str, zone: str, after: str, fold: FoldPolicy, wanted: list[str]
) -> None:
    assert walls(spec, zone, after, len(wanted), fold=fold) == wanted
