from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.trail import Filter, narrowed, page, read_filter, suggestions, visible

STAY = Subject("topic", "stay.completed")
Write = Callable[..., list[AuditEntry]]


def person(role: str, *scopes: str, name: str = "anna", kind: str = "user") -> Actor:
    return Actor(name, kind, grants=tuple(ScopedRole(Role(role), scope) for scope in scopes))


def seqs(entries: Any) -> list[int]:
    return sorted(entry.seq for entry in entries)


@pytest.fixture
def log(write: Write) -> dict[str, int]:
    """One entry of each kind, by what it is about."""
    made = {
        "booking": write(1, actor=person("operator", "*", name="otto"), reason="maintenance window")[0],
        "subscription": write(
            1, subject=Subject("subscription", "booking.created", "billing"),
            action="subscription.pause", actor=SYSTEM
        )[0],
        "stay": write(1, subject=STAY, action="topic.resume", actor=person("editor", "*", name="otto"))[0],
        "bookings": write(1, subject=Subject("topic", "bookings.archive"))[0],
        "user": write(1, subject=Subject("user", "", "bob"), action="user.create", after={"email": "BOB@x.example"})[0],
        "own": write(1, subject=STAY, actor=person("viewer", "*"), action="topic.pause.refused")[0],
        "token": write(1, subject=STAY, actor=person("viewer", "*", name="anna/ci", kind="token"))[0],
        "alike": write(1, subject=STAY, actor=person("viewer", "*", name="anna2/ci", kind="token"))[0],
    }  # fmt: skip
    return {name: entry.seq for name, entry in made.items()}


def test_without_a_scope_all_is_seen(log: dict[str, int]) -> None:
    assert seqs(visible(person("operator", "*"))) == sorted(log.values())


def test_a_scoped_person_sees_their_topics_and_their_own_acts(log: dict[str, int]) -> None:
    seen = seqs(visible(person("operator", "booking.*")))
    # "bookings" was done by anna as well: her own acts are hers wherever they were.
    assert seen == sorted(log[name] for name in ("booking", "subscription", "bookings", "user", "own", "token"))


def test_another_scoped_person_sees_neither_others_nor_users(log: dict[str, int]) -> None:
    seen = seqs(visible(person("operator", "booking.*", name="olga")))
    assert seen == sorted(log[name] for name in ("booking", "subscription"))


def test_a_token_sees_its_own_acts_and_not_its_makers(log: dict[str, int]) -> None:
    token = Actor(
        "anna/ci", "token", grants=(ScopedRole(Role.ADMIN, "*"),), limit=ScopedRole(Role.OPERATOR, "booking.created")
    )
    assert seqs(visible(token)) == sorted(log[name] for name in ("booking", "subscription", "token"))


def test_a_scope_of_a_weaker_role_does_not_count(log: dict[str, int]) -> None:
    actor = Actor("olga", grants=(ScopedRole(Role.VIEWER, "*"), ScopedRole(Role.OPERATOR, "booking.*")))
    assert seqs(visible(actor)) == sorted(log[name] for name in ("booking", "subscription"))


def test_a_viewer_sees_nothing(log: dict[str, int]) -> None:
    with pytest.raises(Forbidden):
        visible(person("viewer", "*"))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"actor": "otto"}, ["booking", "stay"]),
        ({"action": "topic.resume"}, ["stay"]),
        ({"action": "topic.*"}, ["booking", "stay", "bookings", "own", "token", "alike"]),
        ({"target": "booking.created"}, ["booking", "subscription"]),
        ({"target": "bob"}, ["user"]),
        ({"q": "MAINTENANCE"}, ["booking"]),
        ({"q": "bob@X"}, ["user"]),
        ({"by": "people"}, ["booking", "stay", "bookings", "user", "own"]),
        ({"by": "programs"}, ["token", "alike"]),
        ({"by": "hbus"}, ["subscription"]),
        ({"by": "refused"}, ["own"]),
        ({"actor": "otto", "target": "stay.completed"}, ["stay"]),
        ({"q": "100%"}, []),
    ],
)
def test_filters_narrow(log: dict[str, int], given: dict[str, str], found: list[str]) -> None:
    entries = narrowed(AuditEntry.objects.all(), read_filter(given))
    assert seqs(entries) == sorted(log[name] for name in found)


def test_a_correlation_id_leads_to_its_entries(write: Write) -> None:
    from hbus_console.access.context import RequestContext, bound

    with bound(RequestContext("r", "c-1", "")):
        write(2)
    write(1)
    assert seqs(narrowed(AuditEntry.objects.all(), Filter(correlation="c-1"))) == [1, 2]


def test_times_include_the_start_and_exclude_the_end(write: Write) -> None:
    first, second = write(2)
    entries = AuditEntry.objects.all()
    assert seqs(narrowed(entries, Filter(), start=second.at)) == [2]
    assert seqs(narrowed(entries, Filter(), end=second.at)) == [1]
    assert seqs(narrowed(entries, Filter(), first.at, second.at + timedelta(microseconds=1))) == [1, 2]


@pytest.mark.parametrize(
    ("given", "field"), [({"by": "aliens"}, "by"), ({"q": "x" * 201}, "q"), ({"target": "a\x00"}, "target")]
)
def test_a_malformed_filter_is_refused(given: dict[str, str], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_filter(given)
    assert caught.value.field == field


def test_pages_lead_there_and_back(write: Write) -> None:
    write(7)
    entries = AuditEntry.objects.all()
    seen, cursor, cursors = [], "", []
    while True:
        found = page(entries, cursor, size=3)
        seen += [entry.seq for entry in found.entries]
        cursors.append(found)
        if not found.older:
            break
        cursor = found.older
    assert seen == [7, 6, 5, 4, 3, 2, 1]
    assert cursors[0].newer == ""
    back = page(entries, cursors[-1].newer, size=3)
    assert [entry.seq for entry in back.entries] == [4, 3, 2]
    top = page(entries, back.newer, size=3)
    assert [entry.seq for entry in top.entries] == [7, 6, 5]
    assert top.newer == ""
    assert page(entries, "b1", size=3).entries == []


@pytest.mark.parametrize("cursor", ["x", "b", "b-1", "c5", "b1;", "b" + "9" * 30])
def test_a_malformed_cursor_is_refused(db: None, cursor: str) -> None:
    with pytest.raises(BadInput) as caught:
        page(AuditEntry.objects.all(), cursor)
    assert caught.value.field == "cursor"


def test_a_page_is_one_query_that_uses_the_primary_key(write: Write) -> None:
    write(3)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        page(AuditEntry.objects.all(), "b3")
    (query,) = [row["sql"] for row in queries]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {query}")
            plan = str(cursor.fetchall())
            assert "SEARCH" in plan
            assert "seq<?" in plan
            assert "TEMP B-TREE" not in plan
        else:
            # Of a table this small the planner would read the whole, whatever indexes it has.
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            cursor.execute(f"EXPLAIN {query}")
            plan = str(cursor.fetchall())
            assert "Index Scan Backward using audit_auditentry_pkey" in plan
            assert "Sort" not in plan


def test_suggestions_name_who_acted_and_what_was_done(log: dict[str, int]) -> None:
    actors, actions = suggestions(visible(person("operator", "booking.*", name="olga")))
    assert (actors, actions) == (["otto", "system"], ["subscription.pause", "topic.pause"])
