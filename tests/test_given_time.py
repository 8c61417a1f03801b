from __future__ import annotations

import time

import pytest

from tests.given_time import GivenTime, share_given


@pytest.mark.parametrize(("busy", "stolen", "share"), [(0, 0, 1.0), (50, 0, 1.0), (25, 75, 0.25), (0, 10, 0.0)])
def test_only_stolen_time_is_taken_off(busy: int, stolen: int, share: float) -> None:
    assert share_given(busy, stolen) == share


def test_it_is_never_more_than_what_passed() -> None:
    began = time.monotonic()
    given = GivenTime()
    assert 0 <= given.elapsed_s() <= time.monotonic() - began
