from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from engine.bus.facts import Fact, batches
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.evidence.booking import Booking
from hbus_console.messages import search
from hbus_console.messages.reach import Reach, reach
from hbus_console.messages.search import Query
from hbus_console.topics.models import Topic
from tests.costs import database_work
from tests.hbus_console.messages.conftest import AT, event, message, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ALL = person("viewer")


def ids(query: Query, actor: Actor = ALL) -> list[str]:
    return [row.message_id for row in search.search(actor, query).messages]


@pytest.fixture
def world() -> None:
    message("01AAAAAA01", AT, key="b/1", correlation_id="c1")
    message("01AAAAAA02", AT + 1, key="b/2", correlation_id="c1", type="booking.moved")
    message("01BBBBBB03", AT + 2, topic="stay.completed", type="stay.completed", key="b/1")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(), ["01BBBBBB03", "01AAAAAA02", "01AAAAAA01"]),
        (Query(id="01AAAAAA02"), ["01AAAAAA02"]),
        (Query(id="01AAAA"), ["01AAAAAA02", "01AAAAAA01"]),
        (Query(id="01AAA"), []),
        (Query(key="b/1"), ["01BBBBBB03", "01AAAAAA01"]),
        (Query(key="b/1", topic="stay.completed"), ["01BBBBBB03"]),
        (Query(correlation="c1"), ["01AAAAAA02", "01AAAAAA01"]),
        (Query(type="booking.moved"), ["01AAAAAA02"]),
        (Query(topic="stay.completed"), ["01BBBBBB03"]),
        (Query(start_ms=AT + 1, end_ms=AT + 2), ["01AAAAAA02"]),
    ],
)
def test_every_way_in(query: Query, found: list[str]) -> None:
    assert ids(query) == found


@pytest.mark.usefixtures("world")
def test_a_scope_hides_the_messages_of_other_topics() -> None:
    Topic.objects.create(name="booking.changed")
    Topic.objects.create(name="stay.completed")
    booking = person("viewer", "booking.*")
    assert ids(Query(), booking) == ["01AAAAAA02", "01AAAAAA01"]
    assert ids(Query(key="b/1"), booking) == ["01AAAAAA01"]
    assert ids(Query(topic="stay.completed"), booking) == []
    assert ids(Query(id="01BBBBBB03"), booking) == []


def test_pages_follow_each_other_without_gap_or_repeat() -> None:
    for number in range(25):
        # Several of one millisecond, so that the time alone does not order them.
        message(f"m{number:02}", AT + number // 5)
    seen: list[str] = []
    cursor = ""
    while True:
        page = search.search(ALL, Query(), cursor, size=4)
        seen += [row.message_id for row in page.messages]
        cursor = page.next_cursor
        if not cursor:
            break
        # What comes in meanwhile does not shift the pages.
        message(f"new{cursor}", AT + 1_000)
    assert seen == [f"m{number:02}" for number in reversed(range(25))]


def test_pages_of_several_topics_are_merged_in_order() -> None:
    for name in ("a.x", "a.y", "b.z"):
        Topic.objects.create(name=name)
    for number in range(12):
        message(f"m{number:02}", AT + number, topic=("a.x", "a.y", "b.z")[number % 3])
    actor = person("viewer", "a.*")
    first = search.search(actor, Query(), size=5)
    rest = search.search(actor, Query(), first.next_cursor, size=5)
    found = [row.message_id for row in [*first.messages, *rest.messages]]
    assert found == ["m10", "m09", "m07", "m06", "m04", "m03", "m01", "m00"]


@pytest.mark.parametrize("cursor", ["x", "1", "-", "1-x"])
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput) as refused:
        search.search(ALL, Query(), cursor)
    assert refused.value.field == "cursor"


def test_what_became_of_a_page_is_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    rows = [message(f"m{number}") for number in range(3)]
    event("m0", "settled", 5)
    event("m0", "settled", 6, "availability")
    event("m1", "retried", 5)
    event("m1", "dead", 9)
    with django_assert_num_queries(1, using="ledger"):
        outcomes = search.outcomes(rows)
    assert outcomes[rows[0].identity].settled == {"billing", "availability"}
    assert (outcomes[rows[1].identity].failed, outcomes[rows[1].identity].dead) == (2, {"billing"})
    assert outcomes[rows[2].identity] == search.Outcome()


def test_the_reach_is_told_and_how_many_there_are_to_who_may_see_them_all() -> None:
    everybody, narrow = person("viewer"), person("admin", "booking.*")
    assert (reach(everybody), reach(narrow)) == (Reach(0, None), Reach(None, None))
    message("m1", AT + 5)
    message("m2", AT)
    assert (reach(everybody), reach(narrow)) == (Reach(2, AT), Reach(None, AT))


def test_a_page_costs_the_same_at_a_hundred_thousand_messages() -> None:
    rows = Booking()
    for n in range(100_000):
        rows.add(
            batches([Fact("published", AT + n, topic=f"t{n % 5}", message_id=f"m{n:08}", type="t", source="/s",
                          key=f"k{n % 1000}", correlation_id=f"c{n}", position="1-0")])
        )  # fmt: skip
    rows.write()
    for query in (Query(), Query(key="k7"), Query(topic="t3"), Query(correlation="c99"), Query(id="m00000099")):
        with database_work("ledger") as cost:
            assert search.search(ALL, query).messages
        # A page by an index; a scan would be a hundred thousand rows, and several instructions for each.
        cost.at_most(5_000, query)


def test_the_last_attempt_failed_too_where_it_died_or_was_parked() -> None:
    row = message("m1")
    event("m1", "retried", 5)
    event("m1", "parked", 6)
    found = search.outcomes([row])[row.identity]
    assert (found.failed, found.retrying) == (2, {"billing"})
