"""Partners that search: each gets what its plan allows, whatever another does."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from examples.hotel import searching
from examples.hotel.bookings import read_feed
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.models import QuotaPolicy, TenantPlan
from hbus_console.quotas.services.policies import change_policy
from tests.examples.hotel.test_commands import fill

pytestmark = pytest.mark.usefixtures("hotel")


def test_a_flood_is_held_to_its_plan_and_the_others_feel_nothing(bookings_file: Path) -> None:
    fill(bookings_file)
    assert searching.seed_policies(SYSTEM)
    assert not searching.seed_policies(SYSTEM), "twice makes nothing"
    outcome = searching.play(read_feed(bookings_file), 3.0, threading.Event())
    assert outcome.holds, outcome
    assert outcome.served, outcome
    gold, partner, flood = outcome.shares
    for kept_to_it in (gold, partner):
        # One may be under way when the play ends.
        assert kept_to_it.searches - kept_to_it.answered <= 1
        assert kept_to_it.fullest == 1
    assert flood.refused > 5 * flood.answered
    assert flood.answered <= 20 * outcome.took_s + 40


def test_what_a_person_has_changed_stays_and_is_what_they_are_judged_by(bookings_file: Path) -> None:
    searching.seed_policies(SYSTEM)
    change_policy(SYSTEM, "hotel-search-partner", {"limit": 5.0, "burst": 5.0})
    searching.seed_policies(SYSTEM)
    assert QuotaPolicy.objects.get(name="hotel-search-partner").limit == 5
    assert TenantPlan.objects.filter(until__isnull=True).count() == len(searching.PARTNERS)
    outcome = searching.play(read_feed(bookings_file), 1.0, threading.Event())
    flood = outcome.shares[-1]
    assert flood.answered <= flood.allowed <= 5 * outcome.took_s + 5


def test_more_than_the_policy_allows_does_not_hold_and_who_gives_up_was_not_served() -> None:
    share = searching.Share("sunways", "partner", answered=10, allowed=10)
    assert searching.SearchOutcome(1, [share]).holds
    assert searching.SearchOutcome(1, [share]).served
    share.given_up = 1
    outcome = searching.SearchOutcome(1, [share])
    assert (outcome.holds, outcome.served) == (True, False)
    assert not searching.SearchOutcome(1, [searching.Share("sunways", "partner", answered=11, allowed=10)]).holds
    assert not searching.SearchOutcome(1, [searching.Share("sunways", "partner", allowed=10)]).served


def test_the_command_tells_what_each_got_beside_what_it_may(
    bookings_file: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.HBUS_QUOTAS = True
    call_command("hotel_search", "--bookings", str(bookings_file), "--seconds", "1", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["holds"]
    assert [share["partner"] for share in told["shares"]] == ["globetrek", "sunways", "lastminute"]
    call_command("hotel_search", "--bookings", str(bookings_file), "--seconds", "1")
    said = capsys.readouterr().out
    assert "lastminute  plan partner" in said
    assert "None got more than its plan" in said


def test_without_quotas_or_time_the_command_says_so(settings: Settings) -> None:
    with pytest.raises(CommandError, match="HBUS_QUOTAS"):
        call_command("hotel_search")
    settings.HBUS_QUOTAS = True
    with pytest.raises(CommandError, match="--seconds"):
        call_command("hotel_search", "--seconds", "0")
