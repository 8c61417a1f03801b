"""What an audit of the bus says of policies: more than they allow is found where it was planted, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from engine.core.verdicts import AuditVerdict
from engine.quota import OnLoss, Whose
from hbus_console.access.permissions import SYSTEM
from hbus_console.evidence import freshness
from hbus_console.evidence.models import Cursor, Evidence
from hbus_console.evidence.router import LEDGER
from hbus_console.quotas import over_admission
from hbus_console.quotas.auditing import judge_quotas
from hbus_console.quotas.models import QuotaBook, QuotaUse, UsesTrimmed
from hbus_console.quotas.services.policies import change_policy, delete_policy
from hbus_console.quotas.sight import whole_of
from hbus_console.registry.judging import JudgedSpan, JudgedSubject
from tests.hbus_console.quotas.booked import book, book_one
from tests.hbus_console.quotas.conftest import MakePolicy

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
#: A full hour, and a policy of ten a second with a burst of twenty: what a minute of it may be booked, a quarter of an
#: hour, and what lies between one minute's and the other's.
BEGIN = 1_790_035_200
LIMIT, BURST = 10, 20
MINUTE, QUARTER = LIMIT * 75 + BURST, LIMIT * 915 + BURST
ADA, BEN = ("api", "POST publish", "ada"), ("api", "POST publish", "ben")


@pytest.fixture
def policy(make_policy: MakePolicy) -> str:
    make_policy("partners", LIMIT, BURST)
    books_made_at(BEGIN - 3_600)
    return "partners"


def books_made_at(at: int, **which: int) -> None:
    QuotaBook.objects.filter(**which).update(made_at=datetime.fromtimestamp(at, tz=UTC))


def judged(from_s: int | None = BEGIN, to_s: int | None = None, now_s: int = BEGIN + 7_200) -> list[JudgedSubject]:
    def ms(at: int | None) -> int | None:
        return None if at is None else at * 1000

    return list(judge_quotas(JudgedSpan(ms(from_s), ms(to_s), now_s * 1000)))


def counts(found: JudgedSubject) -> Mapping[str, int]:
    return {each.kind: each.count for each in found.findings}


def test_what_stays_within_limit_and_burst_is_clean(policy: str) -> None:
    for minute in range(0, 900, 60):
        book(BEGIN + minute, {ADA: _used(LIMIT * 60), BEN: _used(LIMIT * 60)})
    book_one(BEGIN + 900, ADA, MINUTE)
    (found,) = judged()
    assert (found.verdict, found.findings, found.subject.name) == (AuditVerdict.CLEAN, [], policy)
    # Of each of two tenants fifteen minutes and their quarter, and one more of one of them.
    assert found.judged == 2 * 16 + 2
    assert (found.from_ms, found.to_ms) == (BEGIN * 1000, (BEGIN + 7_140) * 1000)


def _used(admitted: int) -> tuple[int, int, int, int]:
    return (admitted, 0, 0, 0)


def test_a_minute_that_admitted_too_much_is_found_and_names_whose_it_was(policy: str) -> None:
    book(BEGIN + 120, {ADA: _used(MINUTE + 1), BEN: _used(MINUTE)})
    (found,) = judged()
    assert (found.verdict, counts(found)) == (AuditVerdict.WRONG, {"over": 1})
    (sample,) = found.findings[0].samples
    assert (sample.at_ms, sample.subject.name) == ((BEGIN + 120) * 1000, policy)
    assert sample.says == "771 were admitted to ada in 1 min, 770 at most"


def test_a_quarter_is_too_much_though_none_of_its_minutes_is(policy: str) -> None:
    for minute in range(0, 900, 60):
        book_one(BEGIN + minute, ADA, MINUTE - 100)
    assert 15 * (MINUTE - 100) > QUARTER
    (found,) = judged()
    assert (found.verdict, counts(found)) == (AuditVerdict.WRONG, {"over": 1})


def test_of_a_shared_limit_all_tenants_are_added_up(make_policy: MakePolicy) -> None:
    make_policy("all", LIMIT, BURST, whose=Whose.TOGETHER, service="publish", resource="booking.*")
    books_made_at(BEGIN - 3_600)
    for key in (("publish", "booking.created", "ada"), ("publish", "booking.changed", "ben")):
        book_one(BEGIN, key, MINUTE // 2 + 1)
    book_one(BEGIN, ("publish", "payment.taken", "ada"), 100_000)
    (found,) = judged()
    assert (counts(found), found.scope) == ({"over": 1}, "booking.*")


def test_of_who_has_a_narrower_policy_the_wider_says_nothing(policy: str, make_policy: MakePolicy) -> None:
    make_policy("ada", 100, 100, tenant="ada")
    books_made_at(BEGIN - 3_600)
    book_one(BEGIN, ADA, MINUTE * 5)
    of_ada, of_all = judged()
    assert (of_ada.subject.name, of_ada.findings, of_ada.judged) == ("ada", [], 2)
    assert (of_all.findings, of_all.judged) == ([], 0)


def test_a_window_in_which_a_policy_changed_is_judged_by_the_larger(policy: str) -> None:
    before = QuotaBook.objects.latest("number").number
    change_policy(SYSTEM, policy, {"limit": 2 * LIMIT}, "for the season")
    books_made_at(BEGIN - 3_600, number=before)
    books_made_at(BEGIN + 630, number=before + 1)
    # Before, while either may hold, and after it.
    for minute, admitted in ((0, MINUTE + 1), (600, MINUTE + 1), (660, MINUTE + 1), (1_200, MINUTE + 1)):
        book_one(BEGIN + minute, ADA, admitted)
    (found,) = judged()
    assert counts(found) == {"over": 1}
    assert found.findings[0].samples[0].at_ms == BEGIN * 1000


def test_a_policy_that_was_deleted_is_judged_while_it_held(policy: str) -> None:
    before = QuotaBook.objects.latest("number").number
    delete_policy(SYSTEM, policy, policy, "not needed")
    books_made_at(BEGIN - 3_600, number=before)
    books_made_at(BEGIN + 1_800, number=before + 1)
    book_one(BEGIN, ADA, MINUTE + 1)
    book_one(BEGIN + 3_000, ADA, 100 * MINUTE)
    (found,) = judged()
    assert (found.subject.name, counts(found)) == (policy, {"over": 1})


def cut_off(node: str, from_s: int, to_s: int | None) -> None:
    Evidence.objects.create(kind="quota_cut_off", at_ms=from_s * 1000, node=node)
    if to_s is not None:
        Evidence.objects.create(kind="quota_back", at_ms=to_s * 1000, node=node)


def test_what_a_node_spends_while_it_is_cut_off_is_explained_up_to_its_share(policy: str) -> None:
    # A tenth of the limit for the whole minute and what is around it, and one token.
    share = round(LIMIT * 0.1 * 90) + 1
    book_one(BEGIN, ADA, MINUTE + share)
    assert counts(judged()[0]) == {"over": 1}
    cut_off("web-1", BEGIN - 60, BEGIN + 120)
    (found,) = judged()
    assert (found.verdict, counts(found)) == (AuditVerdict.EXPLAINED, {"fallback": 1})
    assert found.findings[0].why == "cut off: web-1"
    book_one(BEGIN, ADA, 1)
    assert counts(judged()[0]) == {"over": 1}
    # Another node has as much.
    cut_off("web-2", BEGIN - 60, BEGIN + 120)
    assert counts(judged()[0]) == {"fallback": 1}


def test_a_minute_that_is_explained_hides_no_quarter_that_is_not(policy: str) -> None:
    cut_off("web-1", BEGIN - 60, BEGIN + 60)
    book_one(BEGIN, ADA, MINUTE + 1)
    for minute in range(60, 900, 60):
        book_one(BEGIN + minute, ADA, MINUTE - 50)
    (found,) = judged()
    assert counts(found) == {"over": 1, "fallback": 1}
    assert (
        found.findings[0].samples[0].says.startswith(f"{MINUTE + 1 + 14 * (MINUTE - 50):,} were admitted to ada in 15")
    )


def test_a_cut_off_long_before_explains_nothing(policy: str) -> None:
    book_one(BEGIN + 600, ADA, MINUTE + 1)
    cut_off("web-1", BEGIN - 60, BEGIN + 120)
    assert counts(judged()[0]) == {"over": 1}


def test_one_whose_end_nobody_told_ends_after_an_hour(policy: str) -> None:
    cut_off("web-1", BEGIN, None)
    book_one(BEGIN + 600, ADA, MINUTE + 1)
    book_one(BEGIN + 4_200, ADA, MINUTE + 1)
    assert counts(judged()[0]) == {"over": 1, "fallback": 1}


@pytest.mark.parametrize(("on_loss", "told"), [(OnLoss.OPEN, {"opened": 2}), (OnLoss.CLOSED, {"over": 1})])
def test_a_policy_says_what_passes_meanwhile(make_policy: MakePolicy, on_loss: OnLoss, told: Mapping[str, int]) -> None:
    make_policy("partners", LIMIT, BURST, on_loss=on_loss)
    books_made_at(BEGIN - 3_600)
    cut_off("web-1", BEGIN - 60, BEGIN + 120)
    book_one(BEGIN, ADA, 100 * MINUTE if on_loss is OnLoss.OPEN else MINUTE + 50)
    assert counts(judged()[0]) == told


def test_of_a_day_the_limit_is_the_most(make_policy: MakePolicy) -> None:
    make_policy("daily", 1_000, 1_000, period="day")
    books_made_at(BEGIN - 7_200)
    # The first minute may have what was spent before midnight.
    book_one(BEGIN, ADA, 500)
    book_one(BEGIN + 60, ADA, 600)
    book_one(BEGIN + 3_600, ADA, 400)
    (found,) = judged(BEGIN - 3_600)
    assert (found.findings, found.judged) == ([], 1)
    book_one(BEGIN + 5_000 // 60 * 60, ADA, 1)
    (found,) = judged(BEGIN - 3_600)
    assert (counts(found), found.findings[0].samples[0].at_ms) == ({"over": 1}, BEGIN * 1000)


def test_shadows_and_seats_are_not_judged(make_policy: MakePolicy) -> None:
    make_policy("only-counts", LIMIT, BURST, shadow=True)
    make_policy("seats", 3, period="at once")
    books_made_at(BEGIN - 3_600)
    book_one(BEGIN, ADA, 100_000)
    assert judged() == []


def test_of_a_span_and_of_what_is_booked_so_far_it_is_that(policy: str) -> None:
    book_one(BEGIN, ADA, MINUTE + 1)
    assert judged(BEGIN + 60)[0].findings == []
    assert counts(judged(BEGIN, BEGIN + 60)[0]) == {"over": 1}
    # The evidence stands still since the first minute.
    Cursor.objects.create(name=freshness.FACTS, at_ms=(BEGIN + 130) * 1000)
    (found,) = judged()
    assert (found.verdict, counts(found), found.to_ms) == (
        AuditVerdict.WRONG, {"over": 1, "unbooked": 1}, (BEGIN + 120) * 1000,
    )  # fmt: skip
    assert judged(BEGIN + 60, BEGIN + 600)[0].verdict is AuditVerdict.OPEN
    assert judged(BEGIN + 60, BEGIN + 120)[0].verdict is AuditVerdict.CLEAN


def test_where_minutes_are_kept_no_longer_quarters_are_judged(policy: str) -> None:
    book_one(BEGIN, ADA, QUARTER)
    book_one(BEGIN + 900, ADA, QUARTER + 1)
    UsesTrimmed.objects.create(uses=QuotaUse._meta.db_table, since=BEGIN + 3_600)
    (found,) = judged()
    assert (counts(found), found.judged) == ({"over": 1}, 2)
    assert found.findings[0].samples[0].at_ms == (BEGIN + 900) * 1000


def test_of_too_many_uses_the_newest_are_judged_and_the_rest_is_told(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book_one(BEGIN, ADA, MINUTE + 1)
    book_one(BEGIN + 3_600, ADA, 1)
    monkeypatch.setattr(over_admission, "MOST_ROWS", 1)
    (found,) = judged()
    assert (counts(found), found.from_ms) == ({"left_out": 1}, (BEGIN + 3_600) * 1000)


def test_before_the_first_book_nothing_was_limited_and_what_is_gone_is_told(policy: str) -> None:
    book_one(BEGIN - 7_200, ADA, 100_000)
    (found,) = judged(BEGIN - 10_000)
    assert (found.findings, found.from_ms) == ([], (BEGIN - 3_600 + 60) * 1000)
    QuotaBook.objects.update(number=7)
    assert counts(judged(BEGIN - 10_000)[0]) == {"left_out": 1}


def test_it_reads_an_hour_at_a_time_and_locks_nothing(policy: str) -> None:
    for minute in range(0, 7_200, 60):
        book(BEGIN + minute, {("api", "GET x", f"t-{number}"): _used(1) for number in range(20)})
    with CaptureQueriesContext(connections[LEDGER]) as asked:
        (found,) = judged()
    assert (found.verdict, found.judged) == (AuditVerdict.CLEAN, 20 * (119 + 8))
    assert len(asked) <= 6
    assert all(each["sql"].startswith("SELECT") for each in asked.captured_queries)


@pytest.mark.parametrize(
    ("covered", "whole"),
    [
        ([("publish", "hotels.rooms")], "hotels.rooms"),
        ([("publish", "hotels.*")], "hotels.*"),
        ([("*", "hotels.rooms.b*")], "hotels.rooms.*"),
        ([("publish", "hot*")], "*"),
        ([("*", "*")], "*"),
        ([("api", "hotels.rooms")], "*"),
        ([("publish", "hotels.rooms"), ("consume", "hotels.rates.*")], "hotels.*"),
        ([("publish", "hotels.rooms"), ("publish", "payment.taken")], "*"),
        ([("publish", "hotels.rooms"), ("publish", "hotels.rooms.*")], "hotels.rooms.*"),
    ],
)
def test_who_sees_a_policy_judged_sees_all_that_it_was_about(covered: list[tuple[str, str]], whole: str) -> None:
    assert whole_of(covered) == whole
