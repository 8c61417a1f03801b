"""What was told of a subject or under a correlation id: as a page, over HTTP and by the search box."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.test import Client

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import cursors
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, ScopedRole
from hbus_console.evidence import finding, live
from hbus_console.evidence.addresses import evidence_of
from hbus_console.evidence.models import Evidence
from hbus_console.evidence.reading import EvidenceQuery, search
from hbus_console.evidence.router import LEDGER
from tests.hbus_console.topics.conftest import calling, own_keys, signed_in

__all__ = ["calling", "own_keys", "signed_in"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Calling = Callable[..., Callable[..., Any]]

AT = 1_790_000_000_000
CLOSE, OPEN = Subject("job", "hotel.close"), Subject("job", "hotel.open")
PAY = Subject("job", "payroll.close")


def told(subject: Subject | None, at_ms: int = AT, correlation: str = "c-1", **more: Any) -> Evidence:
    return Evidence.objects.create(
        kind="toy_run_ended", subject=str(subject or ""), namespace=subject.namespace if subject else "", at_ms=at_ms,
        correlation_id=correlation, **more,
    )  # fmt: skip


def viewer(scope: str = "*") -> Actor:
    return Actor("vera", grants=(ScopedRole(Role.VIEWER, scope),))


def numbers(query: EvidenceQuery, scope: str = "*") -> list[int]:
    return [row.pk for row in search(viewer(scope), query).rows]


def test_a_subject_and_a_correlation_id_narrow_it_the_newest_first() -> None:
    first, other, last = told(CLOSE), told(OPEN, AT + 1), told(CLOSE, AT + 2, "c-2")
    assert numbers(EvidenceQuery(CLOSE)) == [last.pk, first.pk]
    assert numbers(EvidenceQuery(correlation="c-1")) == [other.pk, first.pk]
    assert numbers(EvidenceQuery(CLOSE, "c-1")) == [first.pk]
    assert numbers(EvidenceQuery(correlation="c\x001")) == []


def test_a_scope_shows_its_namespaces_and_what_concerns_the_installation() -> None:
    mine, general = told(CLOSE), told(None, AT + 1)
    told(PAY, AT + 2)
    told(Subject("user", "", "ada"), AT + 3)
    Evidence.objects.create(kind="toy_run_ended", subject=str(CLOSE), at_ms=AT, correlation_id="c-1")
    assert numbers(EvidenceQuery(correlation="c-1"), "hotel.*") == [general.pk, mine.pk]
    assert numbers(EvidenceQuery(PAY), "hotel.*") == []
    assert len(numbers(EvidenceQuery(correlation="c-1"))) == 5, "a row of an older keeper is for who sees everything"


def test_pages_follow_each_other_without_a_gap_even_within_one_millisecond() -> None:
    rows = [told(CLOSE, AT + number // 4) for number in range(11)]
    seen: list[int] = []
    cursor = ""
    for _ in range(4):
        page = search(viewer(), EvidenceQuery(CLOSE), cursor, size=3)
        seen += [row.pk for row in page.rows]
        cursor = page.next_cursor
    assert (seen, cursor) == ([row.pk for row in reversed(rows)], "")


@pytest.mark.parametrize("asked", [{}, {"subject": "no subject"}, {"subject": "job:hotel.close", "cursor": "x"}])
def test_a_question_without_a_meaning_is_refused(asked: dict[str, str], calling: Calling, signed_in: Any) -> None:
    with pytest.raises(BadInput):
        search(viewer(), EvidenceQuery.read(asked), asked.get("cursor", ""))
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    assert calling(Role.VIEWER)("GET", f"evidence?{query}").status_code == 422
    assert signed_in(Role.VIEWER).get(f"/evidence/?{query}").status_code == (400 if asked else 200)


@pytest.mark.parametrize("query", [EvidenceQuery(CLOSE), EvidenceQuery(correlation="c-1")])
def test_an_index_leads_to_it(query: EvidenceQuery) -> None:
    wanted = {"subject": str(CLOSE)} if query.subject else {"correlation_id": "c-1"}
    plan = Evidence.objects.filter(**wanted).order_by("-at_ms", "-pk")[:50].explain()
    if connections[LEDGER].vendor == "sqlite":
        assert "USING INDEX evidence_" in plan


def test_the_api_tells_each_fact_and_how_far_back_it_reaches(calling: Calling) -> None:
    assert calling(Role.VIEWER)("GET", "evidence?correlation=c-1").json() == {
        "since": None,
        "next": None,
        "previous": None,
        "results": [],
    }
    told(CLOSE, AT, "c-0")
    told(CLOSE, AT + 1_000, detail="done", node="n-1", fields={"slot": "02:00"})
    told(CLOSE, AT + 2_000)
    call = calling(Role.OPERATOR)
    first = call("GET", "evidence?subject=job:hotel.close&correlation=c-1&limit=1").json()
    assert first["since"].startswith("2026-09-21T")
    rest = call("GET", first["next"].partition("/api/v1/")[2]).json()
    assert rest["next"] is None
    [row] = rest["results"]
    assert row.pop("at").startswith("2026-09-21T")
    assert row == {
        "kind": "toy_run_ended",
        "subject": "job:hotel.close",
        "namespace": "hotel.close",
        "detail": "done",
        "node": "n-1",
        "correlation_id": "c-1",
        "fields": {"slot": "02:00"},
    }


def test_the_page_moves_with_what_is_booked_and_leads_on(signed_in: Callable[..., Client]) -> None:
    told(CLOSE, detail="done <b>", fields={"slot": "02:00"})
    client = signed_in(Role.VIEWER)
    page = client.get(evidence_of(CLOSE)).content.decode()
    for part in (
        "done &lt;b&gt;",
        "slot 02:00",
        "toy run ended",
        "?correlation=c-1",
        'data-shows="evidence"',
        "It reaches back to",
    ):
        assert part in page
    assert 'data-shows=""' in client.get(f"{evidence_of(CLOSE)}&cursor={cursors.written(AT + 1, 9)}").content.decode()
    newest = Evidence.objects.latest("pk").pk
    assert live.cells(0, ("*",)).marks == {"evidence": newest, "notices": None}
    assert live.cells(0, ("other.*",)).marks == {"evidence": None, "notices": None}
    assert "No evidence fits" in client.get(evidence_of(OPEN)).content.decode()
    assert "Evidence of what?" in client.get("/evidence/").content.decode()


def test_the_search_box_finds_it_by_correlation_id_and_by_subject() -> None:
    told(CLOSE)
    told(PAY, correlation="c-2")

    def found(text: str, scope: str = "*") -> dict[str, list[tuple[str, str]]]:
        groups = finding.find(viewer(scope), text)
        return {it.title: [(hit.note, hit.href) for hit in it.hits] for it in groups if it.hits}

    assert found("c-1") == {"Evidence by correlation id": [("job:hotel.close", "/evidence/?correlation=c-1")]}
    assert found("job:payroll.close") == {"Evidence of a subject": [(str(PAY), evidence_of(PAY))]}
    assert found("c-2", "hotel.*") == found("job:payroll.close", "hotel.*") == {}


def test_rows_of_before_get_the_namespace_of_their_subject() -> None:
    run = Subject("job-run", "hotel.close", "2026-11-22T02:00/again")
    for subject in (str(CLOSE), str(run), str(Subject("user", "", "ada")), ""):
        Evidence.objects.create(kind="k", subject=subject, at_ms=AT)
    migration = import_module("hbus_console.evidence.migrations.0003_namespace")
    migration.name_namespaces(apps, SimpleNamespace(connection=connections[LEDGER]))
    assert list(Evidence.objects.order_by("pk").values_list("namespace", flat=True)) == [
        "hotel.close", "hotel.close", "", "",
    ]  # fmt: skip
