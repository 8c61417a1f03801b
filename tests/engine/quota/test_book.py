"""Which rules apply to whom, and what a version of them says."""

from __future__ import annotations

import pytest

from engine.core.errors import BadInput
from engine.quota import Book, OnLoss, Period, Rule, Whose
from engine.quota.book import read_book
from engine.quota.plane import KeptBook
from engine.quota.protocol import BucketLink
from engine.quota.terms import Name

NOON_MS = 1_790_000_000_000
NAME = Name("bus", "publish:hotels.booked", "globetrek")


def chain(*rules: Rule, plans: dict[str, str] | None = None, name: Name = NAME) -> list[str]:
    return [link.rule for link in Book(version=1, rules=rules, plans=plans or {}).resolve(name, NOON_MS).chain]


def test_nothing_that_covers_it_is_no_limit() -> None:
    terms = Book(version=4, rules=(Rule(id="a", limit=1, burst=1, tenant="other"),)).resolve(NAME, NOON_MS)
    assert (terms.chain, terms.version) == ((), 4)


def test_the_one_that_is_most_about_a_tenant_holds() -> None:
    everyone = Rule(id="everyone", limit=1, burst=1)
    plan = Rule(id="plan", limit=1, burst=1, plan="partner")
    prefix = Rule(id="prefix", limit=1, burst=1, tenant="globe*")
    tenant = Rule(id="tenant", limit=1, burst=1, tenant="globetrek")
    plans = {"globetrek": "partner"}
    assert chain(everyone) == ["everyone"]
    assert chain(everyone, prefix) == ["prefix"]
    assert chain(everyone, prefix, plan) == ["prefix"]
    assert chain(everyone, prefix, plan, plans=plans) == ["plan"]
    assert chain(tenant, everyone, plan, plans=plans) == ["tenant"]


def test_then_the_one_that_is_most_about_what_is_asked_for() -> None:
    wide = Rule(id="wide", limit=1, burst=1, resource="publish:*")
    narrow = Rule(id="narrow", limit=1, burst=1, resource="publish:hotels.*")
    elsewhere = Rule(id="elsewhere", limit=1, burst=1, resource="replay:*")
    assert chain(wide, narrow, elsewhere) == ["narrow"]


def test_all_that_tenants_share_hold_as_well() -> None:
    own = Rule(id="own", limit=10, burst=20)
    shared = Rule(id="shared", limit=100, burst=100, whose=Whose.TOGETHER)
    terms = Book(version=1, rules=(own, shared)).resolve(NAME, NOON_MS)
    assert terms.chain == (BucketLink("own", "globetrek"), BucketLink("shared"))
    assert (terms.limit, terms.burst) == (10, 20)


def test_the_nearest_stands_first_whatever_it_is_called() -> None:
    """Found by a stranger: a day's limit of everybody stood before one's own rate, for its name came first."""
    day = Rule(id="a-day", limit=1_000, burst=1_000, period=Period.DAY)
    shared = Rule(id="b-shared", limit=10, burst=20, whose=Whose.TOGETHER)
    own = Rule(id="z-own", limit=10, burst=20, tenant=NAME.tenant)
    assert chain(day, shared, own) == ["z-own", "a-day", "b-shared"]


def test_the_programs_of_a_person_are_that_person_unless_a_rule_tells_them_apart() -> None:
    """Found by a stranger: whoever made twenty tokens had twenty limits."""
    each, own = Rule(id="each", limit=1, burst=1), Rule(id="own", limit=2, burst=2, tenant="ada")
    apart = Rule(id="apart", limit=3, burst=3, tenant="bob/*")
    of_plan = Rule(id="of plan", limit=9, burst=9, plan="gold", service="other")
    book = Book(version=1, rules=(each, own, apart, of_plan), plans={"ada": "gold", "ada/poor": "none"})

    def links(service: str, tenant: str) -> list[tuple[str, str]]:
        return [(link.rule, link.owner) for link in book.resolve(Name(service, "r", tenant), NOON_MS).chain]

    assert links("s", "eve/one") == links("s", "eve/two") == [("each", "eve")]
    assert links("s", "ada/one") == links("s", "ada") == [("own", "ada")]
    assert links("s", "bob/one") == [("apart", "bob/one")]
    assert links("s", "bob") == [("each", "bob")]
    assert links("other", "ada/one") == [("own", "ada")]
    assert book.plan_of(Name("s", "r", "ada/one")) == "gold"
    assert book.plan_of(Name("s", "r", "ada/poor")) == "none"


def test_a_rate_a_day_and_a_month_hold_beside_each_other() -> None:
    rate = Rule(id="rate", limit=10, burst=20)
    day = Rule(id="day", limit=1_000, burst=1_000, period=Period.DAY, zone="Europe/Lisbon")
    month = Rule(id="month", limit=9_000, burst=9_000, period=Period.MONTH)
    terms = Book(version=1, rules=(rate, day, month)).resolve(NAME, NOON_MS)
    assert [link.rule for link in terms.chain] == ["rate", "month", "day"]
    _, of_month, of_day = terms.chain
    assert of_day.began_ms <= NOON_MS < of_day.ends_ms == of_day.began_ms + 86_400_000
    assert of_month.ends_ms - of_month.began_ms == 30 * 86_400_000


def test_what_each_may_spend_alone_is_the_least_of_them() -> None:
    rate = Rule(id="rate", limit=100, burst=1, fallback=0.2)
    day = Rule(id="day", limit=86_400, burst=1, period=Period.DAY, fallback=0.5)
    assert Book(version=1, rules=(rate,), nodes=4).resolve(NAME, NOON_MS).fallback == pytest.approx(5)
    assert Book(version=1, rules=(rate, day), nodes=4).resolve(NAME, NOON_MS).fallback == pytest.approx(0.125)


def test_the_nearest_says_what_is_done_without_a_control_plane() -> None:
    own = Rule(id="own", limit=10, burst=20, on_loss=OnLoss.OPEN, weight=3, floor=2, priority=1)
    shared = Rule(id="shared", limit=1, burst=1, whose=Whose.TOGETHER, on_loss=OnLoss.CLOSED)
    terms = Book(version=1, rules=(own, shared)).resolve(NAME, NOON_MS)
    assert (terms.on_loss, terms.weight, terms.floor, terms.priority) == (OnLoss.OPEN, 3, 2, 1)


def test_a_book_is_read_as_it_was_published() -> None:
    book = Book(version=7, rules=(Rule(id="a", limit=2, burst=3, period=Period.DAY),), plans={"t": "p"}, nodes=3)
    kept, rules = book.kept()
    assert read_book(kept) == book
    assert kept.version == 7
    assert rules["a"].by_period


@pytest.mark.parametrize("text", [b"", b"[]", b'{"version":0}', b'{"version":1,"rules":[{"id":"a","limit":-1}]}'])
def test_what_is_no_book_is_refused(text: bytes) -> None:
    with pytest.raises(BadInput, match="version 3"):
        read_book(KeptBook(3, text))
