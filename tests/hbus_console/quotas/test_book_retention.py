"""Old books, versions and ended plans go, and all that a book which is kept says stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.clock import ManualClock, SystemClock, to_datetime
from engine.core.errors import NotThere
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.keeper.duties import all_duties
from hbus_console.quotas import book_retention
from hbus_console.quotas.book_retention import BookRetention
from hbus_console.quotas.models import PolicyVersion, QuotaBook, QuotaPolicy, TenantPlan
from hbus_console.quotas.retention import USES_S
from hbus_console.quotas.services import kept_books
from hbus_console.quotas.services.books import plans_at, policies_at
from hbus_console.quotas.services.kept_books import books_reach
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.services.policies import change_policy, delete_policy, restore_policy
from hbus_console.quotas.services.rolling_back import roll_back
from hbus_console.quotas.sums import reach
from hbus_console.quotas.use_chart import use_chart
from hbus_console.ui.timerange import TimeRange
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
DAYS = 30
CLOCK = ManualClock()


def _now() -> datetime:
    return to_datetime(CLOCK.now_ms())


def _made(number: int, days_ago: float) -> None:
    """As if that book, and what began with it, had been made then."""
    at = _now() - timedelta(days=days_ago)
    QuotaBook.objects.filter(number=number).update(made_at=at)
    PolicyVersion.objects.filter(since=number).update(made_at=at)


@pytest.fixture
def history(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight books of a year; the fifth was in force thirty days ago."""
    monkeypatch.setattr(kept_books, "NEWEST", 2)
    monkeypatch.setattr(kept_books, "NEWEST_OF_EACH", 1)
    make_policy("everyone", 1)
    make_policy("gone", 5)
    set_plan(SYSTEM, "globetrek", "bronze")
    change_policy(SYSTEM, "everyone", {"limit": 4.0})
    set_plan(SYSTEM, "globetrek", "silver")
    change_policy(SYSTEM, "everyone", {"limit": 6.0})
    delete_policy(SYSTEM, "gone", "gone", "over")
    set_plan(SYSTEM, "globetrek", "gold")
    for number, days in enumerate((360, 300, 200, 100, 31, 20, 10, 1), 1):
        _made(number, days)


def _trim(days: int = DAYS) -> list[int]:
    BookRetention(days, clock=CLOCK).tick()
    return sorted(QuotaBook.objects.values_list("number", flat=True))


@pytest.mark.usefixtures("history")
def test_what_a_kept_book_says_stays_whole_and_the_rest_goes() -> None:
    before = {number: (policies_at(number), plans_at(number)) for number in range(5, 9)}
    assert _trim() == [5, 6, 7, 8]
    assert {number: (policies_at(number), plans_at(number)) for number in range(5, 9)} == before
    assert sorted(PolicyVersion.objects.values_list("policy", "number")) == [
        ("everyone", 2),
        ("everyone", 3),
        ("gone", 1),
    ]
    assert sorted(TenantPlan.objects.values_list("plan", flat=True)) == ["gold", "silver"]
    assert _trim() == [5, 6, 7, 8]
    made = roll_back(SYSTEM, 5, "it was better")
    assert QuotaPolicy.objects.get(name="everyone").limit == 4
    assert QuotaPolicy.objects.get(name="gone").version == 2
    assert plans_at(made) == {"globetrek": "silver"}


@pytest.mark.usefixtures("history")
def test_the_newest_stay_however_old(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 9):
        _made(number, 1_000 - number)
    monkeypatch.setattr(kept_books, "NEWEST", 3)
    assert _trim() == [6, 7, 8]
    monkeypatch.setattr(kept_books, "NEWEST", 100)
    assert _trim() == [6, 7, 8]


@pytest.mark.usefixtures("history")
def test_of_each_policy_the_newest_versions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_books, "NEWEST_OF_EACH", 3)
    _trim()
    restore_policy(SYSTEM, "everyone", 1, "it was better")
    assert QuotaPolicy.objects.get(name="everyone").limit == 1


@pytest.mark.usefixtures("history")
def test_the_limit_of_a_chart_is_right_for_as_long_as_uses_are_kept() -> None:
    """Whatever is configured: uses of two weeks are charted beside what was held to then."""
    end_ms = CLOCK.now_ms()
    span = TimeRange(end_ms - USES_S * 1_000, end_ms, "", "")
    row = QuotaPolicy.objects.get(name="everyone")
    # It was 4 when the two weeks began.
    _made(6, 10)
    _made(7, 9)

    def limits() -> list[float]:
        return next(
            each["values"]
            for each in use_chart(SYSTEM, span, row, None, reach(SystemClock().now_ms()))["series"]
            if each["name"] == "limit"
        )

    drawn = limits()
    assert set(drawn) == {4.0, 6.0}
    assert _trim(days=1) == [5, 6, 7, 8]
    assert limits() == drawn


@pytest.mark.usefixtures("history")
def test_a_trimmed_one_is_told_from_one_that_never_was(
    signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    page, call = signed_in(Role.ADMIN), calling(Role.ADMIN)
    assert "reach back" not in page.get("/quotas/versions/").content.decode()
    _trim()
    found = books_reach()
    assert found is not None
    assert (found.number, found.trimmed) == (5, True)
    assert "They reach back to version 5" in page.get("/quotas/versions/").content.decode()
    for number, says in ((4, "none before version 5 is kept"), (99, "There is no version 99")):
        answer = page.get(f"/quotas/versions/{number}/")
        assert answer.status_code == 404
        assert says in answer.content.decode()
        for method, path, field in (
            ("GET", f"quota/books/difference?older={number}", "older"),
            ("GET", f"quota/books/difference?older=5&newer={number}", "newer"),
            ("POST", f"quota/books/{number}/roll-back", "number"),
        ):
            refused = call(method, path, {"reason": "why"} if method == "POST" else None)
            assert (refused.status_code, refused.json()["field"]) == (404, field), path
            assert says in refused.json()["detail"]
    oldest = page.get("/quotas/versions/5/").content.decode()
    assert "the version before it was trimmed" in oldest
    assert "What going back to it would change" in oldest
    with pytest.raises(NotThere, match="Version 1 of everyone was trimmed: none before version 2"):
        restore_policy(SYSTEM, "everyone", 1, "why")
    policy = " ".join(page.get("/quotas/policies/everyone/").content.decode().split())
    assert "It was made." not in policy
    assert "/quotas/versions/4/" not in policy
    assert "Older versions are in the audit log" in policy


@pytest.mark.usefixtures("history")
def test_a_tick_hands_back_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_books, "BATCH", 1)
    monkeypatch.setattr(book_retention, "TICK_S", 0.0)
    assert _trim() == [2, 3, 4, 5, 6, 7, 8]


def test_without_a_book_nothing_is_done() -> None:
    assert _trim() == []


@pytest.mark.usefixtures("history")
def test_the_keeper_has_it_as_configured(settings: Settings) -> None:
    now = datetime.now(UTC)
    for number in range(1, 9):
        QuotaBook.objects.filter(number=number).update(made_at=now - timedelta(days=100 - 10 * number))
    settings.HBUS_QUOTA_VERSION_DAYS = 45
    duty = next(each for each in all_duties() if each.name == "quota-book-retention")
    duty.tick()
    found = books_reach()
    assert found is not None
    assert found.number == 5
