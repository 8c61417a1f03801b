from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock, SystemClock, to_datetime
from engine.core.errors import BadInput
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.messages import became, search
from hbus_console.messages.became import Became
from hbus_console.messages.checking import SKEW_MS
from hbus_console.messages.models import LagSample
from hbus_console.messages.search import PAGE, Query
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.costs import database_work
from tests.hbus_console.kept import kept
from tests.hbus_console.messages.conftest import AT, TOPIC, event, message, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ALL = person("viewer")
SignIn = Callable[..., Client]


def ids(query: Query, **more: object) -> list[str]:
    return [row.message_id for row in search.search(more.get("actor", ALL), query).messages]  # type: ignore[arg-type]


def subscribe(topic: str = TOPIC, *groups: str) -> None:
    row = Topic.objects.create(name=topic)
    for group in groups:
        Subscription.objects.create(topic=row, group=group)
    Subscription.objects.update(created_at=to_datetime(AT) - timedelta(days=1))


@pytest.fixture
def world() -> None:
    """Two subscriptions; each message is named for what became of it, the oldest first."""
    subscribe(TOPIC, "billing", "partner-sync")
    names = ("settled", "dead", "retrying", "recovered", "waiting", "half", "skipped", "delayed")
    for number, name in enumerate(names):
        message(name, AT + number, key="b/1", type=f"type.{name}", position="" if name == "delayed" else "1-0")
    for name in ("settled", "recovered", "dead", "retrying", "skipped", "half"):
        event(name, "settled", 10, "partner-sync")
    for name in ("settled", "recovered"):
        event(name, "settled", 500)
    event("recovered", "retried", 300)
    event("retrying", "retried", 100)
    event("retrying", "retried", 400)
    event("dead", "retried", 100)
    event("dead", "dead", 200)
    event("skipped", "retried", 150)
    event("skipped", "skipped", 250)
    # Of another topic, with an id of this one.
    message("settled", AT, topic="stay.completed")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(became=Became.DEAD), ["dead"]),
        (Query(became=Became.RETRYING), ["retrying"]),
        (Query(became=Became.UNSETTLED), ["delayed", "half", "waiting", "retrying"]),
        # The time is that of the failure, and for the unsettled that of the publish.
        (Query(became=Became.DEAD, start_ms=AT + 201), []),
        (Query(became=Became.DEAD, start_ms=AT + 200, end_ms=AT + 201), ["dead"]),
        (Query(became=Became.RETRYING, start_ms=AT + 300), ["retrying"]),
        (Query(became=Became.UNSETTLED, end_ms=AT + 5), ["waiting", "retrying"]),
        (Query(became=Became.DEAD, type="type.settled"), []),
        (Query(became=Became.RETRYING, topic="stay.completed"), []),
        (Query(became=Became.UNSETTLED, type="type.half"), ["half"]),
        # What is named exactly comes whatever its age.
        (Query(became=Became.DEAD, key="b/1"), ["dead"]),
        (Query(became=Became.RETRYING, id="retrying"), ["retrying"]),
        (Query(became=Became.RETRYING, id="recovered"), []),
        (Query(became=Became.UNSETTLED, key="b/1"), ["delayed", "half", "waiting", "retrying"]),
    ],
)
def test_messages_are_found_by_what_became_of_them(query: Query, found: list[str]) -> None:
    assert ids(query) == found


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("which", [Became.DEAD, Became.RETRYING, Became.UNSETTLED])
def test_a_scope_hides_what_is_elsewhere(which: Became) -> None:
    assert ids(Query(became=which), actor=person("viewer", "booking.*")) == ids(Query(became=which))
    assert ids(Query(became=which), actor=person("viewer", "stay.*")) == []


@pytest.mark.usefixtures("world")
def test_pages_of_unsettled_messages_follow_each_other() -> None:
    seen, cursor, pages = [], "", 0
    while True:
        page = search.search(ALL, Query(became=Became.UNSETTLED), cursor, size=1)
        seen += [row.message_id for row in page.messages]
        cursor, pages = page.next_cursor, pages + 1
        if not cursor:
            break
    assert seen == ["delayed", "half", "waiting", "retrying"]


@pytest.mark.usefixtures("world")
def test_one_search_for_unsettled_messages_looks_no_further_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(became, "_CHUNK", 3)
    monkeypatch.setattr(became, "MOST_JUDGED", 3)
    first = search.search(ALL, Query(became=Became.UNSETTLED))
    assert ([row.message_id for row in first.messages], first.judged, first.back_to_ms) == (
        ["delayed", "half"],
        3,
        AT + 5,
    )
    rest = search.search(ALL, Query(became=Became.UNSETTLED), first.next_cursor)
    assert [row.message_id for row in rest.messages] == ["waiting", "retrying"]


@pytest.mark.usefixtures("world")
def test_a_slow_search_for_unsettled_messages_stops_at_its_time() -> None:
    clock = ManualClock()
    asked: list[str] = []

    def page(cursor: str, size: int) -> tuple[list[search.LedgerMessage], str]:
        asked.append(cursor)
        clock.advance(became.LONGEST_S)
        return [], "1-1"

    assert became.unsettled(page, "", 50, clock=clock).next_cursor == "1-1"
    assert asked == [""]


@pytest.mark.parametrize(
    ("waiting", "oldest_ms", "found"),
    [
        (2, AT + 600_000, ["second", "first"]),
        (1, AT + 1_200_000 + SKEW_MS, ["second"]),
        # It began at the end, or is through.
        (0, None, []),
        # The store cannot tell, or nobody has asked it yet.
        (None, None, ["second", "first"]),
        (-1, None, ["second", "first"]),
    ],
)
def test_what_a_subscription_made_later_has_before_it_is_unsettled(
    waiting: int | None, oldest_ms: int | None, found: list[str]
) -> None:
    subscribe(TOPIC, "billing")
    for number, name in enumerate(("first", "second"), start=1):
        message(name, AT + number * 600_000)
        event(name, "settled", number * 600_000 + 5)
    assert ids(Query(became=Became.UNSETTLED)) == []
    late = Subscription.objects.create(topic=Topic.objects.get(name=TOPIC), group="late")
    Subscription.objects.filter(pk=late.pk).update(created_at=to_datetime(AT) + timedelta(days=1))
    if waiting != -1:
        LagSample.objects.create(
            at_ms=AT, topic=TOPIC, subscription="late", waiting=waiting, in_flight=0, retrying=0, oldest_ms=oldest_ms
        )
    assert ids(Query(became=Became.UNSETTLED)) == found


def test_a_copy_for_one_subscription_is_settled_when_that_one_is_done_with_it() -> None:
    subscribe(TOPIC, "billing", "partner-sync")
    message("original", AT)
    for group in ("billing", "partner-sync"):
        event("original", "settled", 5, group)
    DeadLetter.objects.create(
        topic=TOPIC, subscription="billing", message_id="original", body=b"", attempts=1, state="redriven",
        redriven_as="copy", source="/hotels/reservations-api", first_failed_at=to_datetime(AT), died_at=to_datetime(AT),
    )  # fmt: skip
    message("copy", AT + 1, causation_id="original")
    assert ids(Query(became=Became.UNSETTLED)) == ["copy"]
    event("copy", "settled", 9, "billing")
    assert ids(Query(became=Became.UNSETTLED)) == []


def test_a_page_of_more_messages_does_not_count_itself_for_all(sign_in: SignIn) -> None:
    for number in range(PAGE + 1):
        message(f"m{number}", AT + number)
    client, since = sign_in(), f"from={AT - 1000}&to={AT + 60_000}"
    answer = client.get(f"/messages/?{since}")
    assert f"{PAGE} messages on this page, newest first" in answer.content.decode()
    older = client.get(f"/messages/?{since}&cursor={answer.context['next_cursor']}").content.decode()
    assert "1 message on this page, newest first" in older


@pytest.mark.usefixtures("world")
def test_the_page_and_the_api_filter_by_outcome(sign_in: SignIn) -> None:
    client, since = sign_in(), f"from={AT - 1000}&to={AT + 60_000}"
    page = client.get(f"/messages/?outcome=retrying&{since}").content.decode()
    assert 'title="retrying"' in page
    assert 'title="recovered"' not in page
    assert '<option value="retrying" selected>' in page
    assert '<span class="badge warn">retrying</span>' in page
    assert "last failed first" in page
    page = client.get(f"/messages/?outcome=unsettled&{since}").content.decode()
    assert page.count('<th scope="row"') == 4
    assert "4 messages, newest first · 9 looked at" in page
    answer = client.get(f"/api/v1/messages?outcome=dead&{since}").json()
    assert [row["id"] for row in answer["results"]] == ["dead"]
    assert answer["results"][0]["outcome"]["dead"] == ["billing"]
    answer = client.get(f"/api/v1/messages?outcome=retrying&{since}").json()
    assert answer["results"][0]["outcome"]["retrying"] == ["billing"]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("dead", "Nothing was found dead"),
        ("retrying", "Nothing was found that is tried again"),
        ("unsettled", "Nothing unsettled was found"),
        ("nobody-told", "Everything found in this time was told"),
        ("lost", "Nothing was found lost"),
    ],
)
def test_where_nothing_fits_the_page_says_what_that_means(sign_in: SignIn, outcome: str, words: str) -> None:
    kept(SystemClock().now_ms())
    later = f"from={AT + 3_600_000}&to={AT + 7_200_000}"
    client = sign_in()
    assert words in client.get(f"/messages/?outcome={outcome}&{later}").content.decode()
    # Of one topic it says nothing about the others.
    narrowed = client.get(f"/messages/?outcome={outcome}&topic={TOPIC}&{later}").content.decode()
    assert words not in narrowed
    assert "No message fits" in narrowed


@pytest.mark.parametrize("asked", [{"outcome": "sad"}, {"outcome": "dead", "repeated": "any"}])
def test_an_outcome_nobody_knows_is_refused(sign_in: SignIn, asked: dict[str, str]) -> None:
    with pytest.raises(BadInput) as refused:
        Query.read(asked)
    assert refused.value.field == "outcome"
    assert sign_in().get("/messages/", asked).status_code == 400
    assert sign_in().get("/api/v1/messages", asked).status_code == 422


def test_a_few_failures_among_many_messages_are_found_at_once() -> None:
    rows = Booking()
    for n in range(20_000):
        at, name = AT + n, f"m{n:08}"
        facts = [Fact("published", at, topic=f"t{n % 5}", message_id=name, type="t", source="/s", position="1-0")]
        if n % 2_000 == 0:
            facts.append(Fact("retried", at + 5, f"t{n % 5}", "g", message_id=name, source="/s"))
        if n % 4_000 == 0:
            facts.append(Fact("dead", at + 9, f"t{n % 5}", "g", message_id=name, source="/s"))
        elif n % 2_000:
            facts.append(Fact("settled", at + 9, f"t{n % 5}", "g", message_id=name, source="/s"))
        rows.add(batches(facts))
    rows.write()
    for query in (
        Query(became=Became.DEAD),
        Query(became=Became.DEAD, topic="t0"),
        Query(became=Became.RETRYING),
        Query(became=Became.RETRYING, topic="t0"),
    ):
        with database_work("ledger") as cost:
            assert len(search.search(ALL, query).messages) == 5
        # Without the indexes of failures, or with a walk over a topic for each, it is some hundred times that.
        cost.at_most(5_000, query)
    # The whole of a first page of a bounded search: so many messages at most, each by its id.
    with database_work("ledger") as cost:
        found = search.search(ALL, Query(became=Became.UNSETTLED))
    assert 0 < (found.judged or 0) <= became.MOST_JUDGED
    cost.at_most(3_000_000, "unsettled")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("query", ["", "outcome=dead", "outcome=retrying", "outcome=unsettled", f"topic={TOPIC}"])
def test_each_row_says_where_it_stands_so_that_what_moves_up_from_behind_is_not_taken_for_new(
    sign_in: SignIn, query: str
) -> None:
    page = sign_in().get(f"/messages/?{query}&from={AT - 1000}&to={AT + 60_000}").content.decode()
    places = [tuple(map(int, place.split("-"))) for place in re.findall(r'<tr data-place="([\d-]+)"', page)]
    assert len(places) == page.count('<th scope="row"') > 0
    assert places == sorted(set(places), reverse=True)
