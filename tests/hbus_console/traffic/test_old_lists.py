"""Lists and lives read from old evidence say since when nobody has gone on with it: no figure there is told as all of
it, and nothing that is missing as never there.
"""

from __future__ import annotations

import re

import pytest
from django.test import Client

from engine.core.clock import to_datetime
from engine.core.ids import IdSource
from hbus_console.evidence.freshness import DEAD_LETTERS, FACTS, STALE_MS, not_known
from hbus_console.messages.models import LedgerMessage
from hbus_console.operations.models import Operation
from hbus_console.ui import live
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import dead_letters

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NAME = "booking.created"
AGO_MS = 79_000


@pytest.fixture
def since(now_ms: int) -> str:
    """The keeper has stopped; since when, in words."""
    kept(now_ms - AGO_MS)
    return not_known(now_ms - AGO_MS)


def text_of(page: Client, path: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.get(path).content.decode()).split())


def messages(count: int, at_ms: int) -> None:
    for each in range(count):
        LedgerMessage.objects.create(
            message_id=f"m{each}", topic=NAME, source="/s", type=NAME, published_ms=at_ms, key="k", size=1
        )


def operation(**more: object) -> Operation:
    fields = {"kind": "redrive", "spec": {}, "digest": "x", "actor": "a", "actor_kind": "user", "audit_seq": 1}
    return Operation.objects.create(**{**fields, **more})


SEARCHES = ("key=z", f"topic={NAME}&key=z", "key=k&outcome=dead", "outcome=unsettled", "repeated=any", "range=1m")


def test_the_ledger_holds_so_many_at_least(page: Client, now_ms: int, since: str) -> None:
    messages(3, now_ms - 600_000)
    assert "The ledger holds ≥ 3 messages and reaches back to" in (shown := text_of(page, "/messages/"))
    assert f"; what happened is {since}." in shown
    kept(now_ms)
    assert "The ledger holds 3 messages and reaches back to" in (shown := text_of(page, "/messages/"))
    assert "not known" not in shown


@pytest.mark.parametrize("query", SEARCHES)
def test_what_is_not_found_may_have_happened(query: str, page: Client, now_ms: int, since: str) -> None:
    messages(1, now_ms - 60 * 86_400_000)
    shown = text_of(page, f"/messages/?{query}")
    assert f"None that is booked fits What was published and what became of it is {since}" in shown
    kept(now_ms)
    assert "None that is booked" not in text_of(page, f"/messages/?{query}")


def test_the_page_of_a_message_says_of_when_it_is(page: Client, now_ms: int, since: str) -> None:
    messages(1, now_ms - 600_000)
    assert f"what happened to it is {since}" in text_of(page, f"/messages/m0?topic={NAME}")
    kept(now_ms)
    assert "not known" not in text_of(page, f"/messages/m0?topic={NAME}")


def test_an_id_made_since_then_is_awaited_however_long_it_takes(page: Client, now_ms: int) -> None:
    # Of a source of its own: ids of one never go back, and another test's clock may have been ahead.
    young = IdSource().new(now_ms)
    kept(now_ms)
    assert "booked about a second later" in text_of(page, f"/messages/{young}")
    kept(now_ms - STALE_MS)
    assert not_known(now_ms - STALE_MS) in (shown := text_of(page, f"/messages/{young}"))
    assert "about a second later" not in shown
    # An id of 2023; the keeper stopped before.
    old = "01HF7YAT00A6HJ4ZQ2RZK3X9QJ"
    kept(1_600_000_000_000)
    assert page.get(f"/messages/{old}").status_code == 202
    assert "what happened is not known since" in page.get(f"/api/v1/messages/{old}").json()["remedy"]
    kept(now_ms)
    assert page.get(f"/messages/{old}").status_code == 404


def test_dead_letters_are_so_many_at_least(page: Client, now_ms: int, since: str) -> None:
    assert f"No dead letter is known What ran out of attempts is {since}" in text_of(page, "/dead-letters/")
    dead_letters(5, NAME)
    assert f"≥ 5 messages in ≥ 1 group; more are {since}." in (shown := text_of(page, "/dead-letters/"))
    assert "Dead letters ≥ 5 " in shown
    texts = live.event(live.cells(now_ms, ("*",)))["texts"]
    assert isinstance(texts, dict)
    assert texts["dead/menu"] == "≥ 5"
    assert f"No dead letter is known What ran out of attempts is {since}" in text_of(page, "/dead-letters/?cause=none")
    kept(now_ms, DEAD_LETTERS)
    assert "5 messages in 1 group." in (shown := text_of(page, "/dead-letters/"))
    assert "Dead letters 5 " in shown


@pytest.mark.parametrize("state", ["queued", "running"])
def test_whether_a_keeper_works_on_an_operation_is_said(state: str, page: Client, now_ms: int, since: str) -> None:
    path = f"/operations/{operation(state=state, total=34).pk}/"
    said = f"hether a keeper works on it is {since}"
    assert f"1 under way; w{said}" in text_of(page, "/operations/")
    assert f"W{said}." in text_of(page, path)
    kept(now_ms)
    assert not any("not known" in text_of(page, each) for each in ("/operations/", path))


def test_what_became_of_copies_is_told_as_far_as_it_is_known(page: Client, now_ms: int, since: str) -> None:
    made = operation(
        state="settling", total=5, done=5, copies=5, settled=2, retrying=1, ended_at=to_datetime(now_ms - AGO_MS)
    )
    said = f"opied; 2 settled, what became of 3 is {since}"
    path = f"/operations/{made.pk}/"
    assert f"c{said}" in text_of(page, "/operations/")
    shown = text_of(page, path)
    assert f"What becomes of its copies is {since}." in shown
    assert f"C{said}." in shown
    assert f"Waiting 3 {since}" in shown
    assert "followed until the last" not in shown
    assert page.get(f"/api/v1/operations/{made.pk}").json()["outcome"] == f"c{said}"
    kept(now_ms)
    assert "Waiting 3 1 retrying" in (shown := text_of(page, path))
    assert "not known" not in shown


def test_pages_of_operations_are_read_again_when_evidence_grows_old(now_ms: int) -> None:
    made = operation(state="done")

    def marks() -> list[object]:
        told = {name: token for part in live.cells(now_ms, ("*",)) for name, token in part.marks.items()}
        return [told["operations"], told[str(made.subject)]]

    kept(now_ms)
    young = marks()
    kept(now_ms - STALE_MS, FACTS)
    assert all(was != now for was, now in zip(young, marks(), strict=True))
