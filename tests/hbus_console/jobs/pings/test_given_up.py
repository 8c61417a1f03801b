"""Whose an end without a ``rid`` is, where the run that began last is waited for no longer."""

from __future__ import annotations

import pytest

from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.pings.ping import PingWord
from hbus_console.jobs.services.triggering import cancel_run
from tests.hbus_console.jobs.pings.conftest import HOUR, NAME, Bell, MakeBell

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
START, LOG = PingWord.START, PingWord.LOG
RID = "0189d8a0-0000-4000-8000-000000000001"


@pytest.mark.parametrize("seen", ["swept", "not swept", "cancelled"])
@pytest.mark.parametrize("decided", [True, False], ids=["decided", "before any node"])
def test_an_end_is_of_the_slot_that_waits_where_the_run_before_it_was_given_up(
    bell: Bell, seen: str, decided: bool
) -> None:
    """Its own start was lost, and the run before it has died."""
    died = bell.ping(10, START)
    if seen == "cancelled":
        cancel_run(SYSTEM, NAME, died.pk, "it hangs")
    elif seen == "swept":
        bell.sweep(1_811)
    if decided:
        bell.decide(3_601)
    assert bell.ping(3_700).slot == HOUR + 3_600
    bell.sweep(4_300)
    before = "cancelled" if seen == "cancelled" else "failed"
    assert bell.rows() == [("schedule", 0, before), ("schedule", 3_600, "done")]
    # With no slot that waits it would have been the end of that after all.
    assert bell.ping(4_400).pk == died.pk


def test_an_end_is_of_no_slot_that_waited_before_the_run_that_was_given_up_began(make_bell: MakeBell) -> None:
    bell = make_bell(30, schedule="* * * * *", grace_s=300, timeout_s=20)
    bell.decide(1)
    bell.ping(62, START)
    bell.sweep(83)
    assert bell.ping(90).slot == HOUR + 60
    assert bell.rows() == [("schedule", 0, "claimed"), ("schedule", 60, "failed")]


def test_nor_of_one_that_waits_for_another(make_bell: MakeBell) -> None:
    bell = make_bell()
    died = bell.ping(10, START)
    bell.sweep(1_811)
    bell.ping(3_602, LOG, RID)
    assert bell.ping(3_700).pk == died.pk
