"""Up to when a subscription is done with what was stored: only where the readings of some seconds all say so."""

from __future__ import annotations

import pytest

from hbus_console.messages.models import LagSample
from hbus_console.pipelines.draining import drained_ms

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW_MS = 1_800_000_000_000


def read(*back_s: float, **open_: int | None) -> None:
    for each in back_s:
        counts = {"waiting": 0, "in_flight": 0, "retrying": 0, "parked": 0, **open_}
        LagSample.objects.create(at_ms=NOW_MS - round(each * 1_000), topic="t", subscription="s", **counts)


def test_what_was_stored_before_the_first_of_them_is_done_with() -> None:
    read(60, 25, 20, 15, 10, 5)
    assert drained_ms("t", "s", NOW_MS) == NOW_MS - 25_000
    assert drained_ms("t", "another", NOW_MS) == 0


@pytest.mark.parametrize("column", ["waiting", "in_flight", "retrying", "parked"])
def test_whatever_was_open_meanwhile_may_not_be_told_yet(column: str) -> None:
    read(25, 20, 5)
    read(10, **{column: 1})
    assert drained_ms("t", "s", NOW_MS) == 0


def test_a_store_that_could_not_tell_says_nothing() -> None:
    read(25, 20, 15, 5)
    read(10, waiting=None)
    assert drained_ms("t", "s", NOW_MS) == 0


@pytest.mark.parametrize("back_s", [(10, 5), (29, 16), ()])
def test_readings_that_are_too_young_or_too_old_say_nothing(back_s: tuple[float, ...]) -> None:
    read(*back_s)
    assert drained_ms("t", "s", NOW_MS) == 0
