"""A zone in spans says what Python's own calendar says."""

from __future__ import annotations

import io
import random
from datetime import datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

import pytest

from engine.cron.expression.offsets import Zone, read_named, zone
from tests.engine.cron.expression.spans import instant

FIRST, LAST = instant("1970-01-02 00:00"), instant("2060-01-01 00:00")


def by_python(rules: ZoneInfo, at: int) -> float:
    offset = datetime.fromtimestamp(at, tz=rules).utcoffset()
    assert offset is not None
    return offset.total_seconds()


def names() -> list[str]:
    return resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()


def test_every_zone_at_any_instant() -> None:
    rng = random.Random(3)
    for name in names()[::2]:
        with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
            rules = ZoneInfo.from_file(file)
        of = zone(name)
        for at in [rng.randrange(FIRST, LAST) for _ in range(6)]:
            span = of.span(at)
            assert span.start <= at < span.end
            for instant_of in (span.start, at, span.end - 1):
                assert span.offset == by_python(rules, instant_of), (name, instant_of)
            assert span.wall_before == span.start + by_python(rules, span.start - 1)
            assert span.wall_after == span.end + by_python(rules, span.end)


@pytest.mark.parametrize("name", ["Africa/Casablanca", "America/Argentina/San_Luis", "Asia/Gaza", "Pacific/Apia"])
def test_no_change_is_overlooked_where_they_are_many(name: str) -> None:
    """Half hour by half hour over sixty years."""
    of, at = zone(name), FIRST
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        rules = ZoneInfo.from_file(file)
    while at < instant("2030-01-01 00:00"):
        assert of.span(at).offset == by_python(rules, at)
        at += 1800 * 5


def test_readings_miss_no_two_changes_of_any_rule() -> None:
    """As :data:`engine.cron.expression.offsets._READING` supposes: half days apart, the same changes."""
    for name in names()[::20]:
        of = zone(name)
        with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
            rules = ZoneInfo.from_file(file)
        for at in range(instant("2030-01-01 00:00"), instant("2045-01-01 00:00"), 12 * 3600):
            assert of.span(at).offset == by_python(rules, at), (name, at)


class _Counting(ZoneInfo):
    """A zone that counts how often it is read."""

    read = 0

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        _Counting.read += 1
        return super().utcoffset(dt)


@pytest.mark.parametrize("name", ["Europe/Madrid", "Africa/Casablanca", "Asia/Gaza", "Asia/Tokyo", "America/Santiago"])
def test_a_century_of_any_zone_takes_few_readings(name: str) -> None:
    """Whoever asks for slots of a zone that nobody asked for yet waits for these."""
    data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    of = Zone(name, _Counting.from_file(io.BytesIO(data), key=name), read_named(data))
    _Counting.read, years = 0, 100
    for year in range(years):
        of.span(instant("2026-06-01 00:00") + year * 31_556_952)
    assert 0 < _Counting.read <= 80 * years
