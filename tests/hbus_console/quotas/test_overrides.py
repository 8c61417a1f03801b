"""Times with other limits: read in the policy's zone, in no two at a time, and found at a moment."""

from __future__ import annotations

import pytest

from engine.core.errors import BadInput
from hbus_console.quotas.overrides import next_change, override_at, read_overrides

#: 2026-11-27T00:00 in Lisbon, which is at UTC in winter, and two days later.
FRIDAY_MS, HOUR_MS = 1_795_737_600_000, 3_600_000
BLACK_FRIDAY = "2026-11-27T00:00..2026-11-28T06:00 120 burst 400 black friday"


def test_a_line_is_read_in_its_zone() -> None:
    (lisbon,) = read_overrides(BLACK_FRIDAY, "Europe/Lisbon")
    (berlin,) = read_overrides(BLACK_FRIDAY, "Europe/Berlin")
    assert (lisbon.from_ms, lisbon.to_ms - lisbon.from_ms) == (FRIDAY_MS, 30 * HOUR_MS)
    assert (lisbon.limit, lisbon.burst, lisbon.words) == (120, 400, "black friday")
    assert berlin.from_ms == FRIDAY_MS - HOUR_MS


def test_without_a_burst_and_without_words() -> None:
    (found,) = read_overrides("2026-11-27T00:00..2026-11-27T01:00 2.5", "UTC")
    assert (found.limit, found.burst, found.words) == (2.5, None, "")


def test_it_holds_from_its_first_moment_and_not_at_its_last() -> None:
    lines = read_overrides(BLACK_FRIDAY, "UTC")
    moments = [FRIDAY_MS - 1, FRIDAY_MS, FRIDAY_MS + 30 * HOUR_MS - 1, FRIDAY_MS + 30 * HOUR_MS]
    assert [override_at(lines, at) is not None for at in moments] == [False, True, True, False]


def test_the_next_change_is_a_beginning_or_an_end() -> None:
    lines = read_overrides(BLACK_FRIDAY, "UTC")
    ends = FRIDAY_MS + 30 * HOUR_MS
    assert [next_change(lines, at) for at in (0, FRIDAY_MS, ends)] == [FRIDAY_MS, ends, None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("noon 120", "'noon 120' is no time with a limit"),
        ("2026-11-27T00:00..2026-11-27T00:00 1", "ends before it begins"),
        ("2026-13-27T00:00..2026-11-28T00:00 1", "2026-13-27T00:00 is no moment"),
        (f"{BLACK_FRIDAY}\n2026-11-28T05:00..2026-11-28T07:00 1 late", "late begins before black friday ends"),
        ("\n".join(f"20{year}-01-01T00:00..20{year}-01-02T00:00 1" for year in range(30, 81)), "These are 51 lines"),
    ],
)
def test_what_is_none_is_told(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        read_overrides(text, "UTC")
    assert refused.value.field == "overrides"
