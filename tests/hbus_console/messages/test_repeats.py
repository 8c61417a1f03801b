from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.bus.facts import Fact, batches
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.evidence.booking import Booking
from hbus_console.messages import search, services
from hbus_console.messages.repeats import Repeated
from hbus_console.messages.search import Query
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.costs import database_work
from tests.hbus_console.kept import kept
from tests.hbus_console.messages.conftest import AT, TOPIC, event, message, person, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ALL = person("viewer")


def ids(query: Query, actor: Actor = ALL) -> list[str]:
    return [row.message_id for row in search.search(actor, query).messages]


@pytest.fixture
def world() -> None:
    """``once`` was never repeated; ``key`` was published again, twice; ``inbox`` delivered again; ``both`` both."""
    for number, name in enumerate(("once", "key", "inbox", "both")):
        message(name, AT + number, key="b/1", type=f"type.{name}")
        event(name, "settled", 10 + number)
    event("key", "deduplicated", 100, "")
    event("both", "deduplicated", 200, "")
    event("both", "deduplicated", 300)
    event("inbox", "deduplicated", 400)
    event("key", "deduplicated", 500, "")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(repeated=Repeated.ANY), ["key", "inbox", "both"]),
        (Query(repeated=Repeated.PUBLISH), ["key", "both"]),
        (Query(repeated=Repeated.DELIVERY), ["inbox", "both"]),
        (Query(repeated=Repeated.ANY, type="type.both"), ["both"]),
        (Query(repeated=Repeated.ANY, topic="stay.completed"), []),
        (Query(repeated=Repeated.PUBLISH, start_ms=AT + 150, end_ms=AT + 450), ["both"]),
        (Query(repeated=Repeated.PUBLISH, end_ms=AT + 150), ["key"]),
        # What is named exactly comes as ever: the newest publish first.
        (Query(repeated=Repeated.ANY, key="b/1"), ["both", "inbox", "key"]),
        (Query(repeated=Repeated.DELIVERY, key="b/1"), ["both", "inbox"]),
        (Query(repeated=Repeated.ANY, id="once"), []),
    ],
)
def test_repetitions_are_found_by_their_kind_and_time(query: Query, found: list[str]) -> None:
    assert ids(query) == found


@pytest.mark.usefixtures("world")
def test_pages_follow_each_other_and_show_each_message_once() -> None:
    seen, cursor = [], ""
    while True:
        page = search.search(ALL, Query(repeated=Repeated.ANY), cursor, size=1)
        seen += [row.message_id for row in page.messages]
        cursor = page.next_cursor
        if not cursor:
            break
    assert seen == ["key", "inbox", "both"]


@pytest.mark.usefixtures("world")
def test_a_scope_hides_repetitions_elsewhere() -> None:
    Topic.objects.create(name=TOPIC)
    assert ids(Query(repeated=Repeated.ANY), person("viewer", "booking.*")) == ["key", "inbox", "both"]
    assert ids(Query(repeated=Repeated.ANY), person("viewer", "stay.*")) == []


@pytest.mark.usefixtures("world")
def test_what_became_of_a_message_counts_its_repetitions() -> None:
    found = search.outcomes(search.search(ALL, Query(key="b/1")).messages)
    outcomes = {(topic, message_id): outcome for (topic, message_id, _), outcome in found.items()}
    assert (outcomes[TOPIC, "key"].published_again, outcomes[TOPIC, "key"].delivered_again) == (2, {})
    assert (outcomes[TOPIC, "both"].published_again, outcomes[TOPIC, "both"].delivered_again) == (1, {"billing": 1})
    assert outcomes[TOPIC, "once"].published_again == 0


def test_a_message_known_to_the_inbox_counts_as_handled() -> None:
    """Its consumer died after the commit and before it could settle: only the second delivery says so."""
    Subscription.objects.create(topic=Topic.objects.create(name=TOPIC), group="billing")
    row = message("m1")
    event("m1", "deduplicated", 30_000, attempt=2, node="consumer-2", duration_us=2_000)
    assert search.outcomes([row])[row.identity].settled == {"billing"}
    life = services.life(ALL, "m1")
    assert life.settled_in == {"billing"}
    assert [moment.sentence for moment in services.timeline(ALL, "m1")][1] == (
        "Delivered again: handled before by billing · consumer-2 · 2 ms · its handler was not run"
    )


def test_a_real_duplicate_is_told_on_the_page_and_over_http(
    sign_in: Callable[..., Client], book: Callable[[], None]
) -> None:
    first = publish(key="b/1", idempotency_key="booking-48213")
    assert publish(key="b/1", idempotency_key="booking-48213") == first
    publish(key="b/1", idempotency_key="booking-48214")
    shared_producer().close()
    book()
    client = sign_in()
    page = client.get("/messages/?repeated=publish").content.decode()
    assert page.count('<th scope="row"') == 1
    assert f'title="{first}"' in page
    assert '<span class="badge info">published again</span>' in page
    assert "last repeated first" in page
    assert "Nothing was found repeated in this time" in client.get("/messages/?repeated=delivery").content.decode()
    answer = client.get("/api/v1/messages?repeated=any").json()
    assert [row["id"] for row in answer["results"]] == [first]
    assert answer["results"][0]["outcome"]["published_again"] == 1
    life = client.get(f"/messages/{first}").content.decode()
    assert "Published again with the same key: not stored" in life


def test_an_unknown_repetition_is_refused(sign_in: Callable[..., Client]) -> None:
    with pytest.raises(BadInput) as refused:
        Query.read({"repeated": "sometimes"})
    assert refused.value.field == "repeated"
    answer = sign_in().get("/messages/?repeated=sometimes")
    assert answer.status_code == 400
    assert "Ask for any, publish or delivery" in answer.content.decode()


def test_a_few_repetitions_among_a_hundred_thousand_messages_are_found_at_once() -> None:
    rows = Booking()
    for n in range(100_000):
        at = AT + n
        facts = [Fact("published", at, topic=f"t{n % 5}", message_id=f"m{n:08}", type="t", source="/s", position="1-0")]
        if n % 10_000 == 0:
            facts.append(Fact("deduplicated", at + 5, topic=f"t{n % 5}", message_id=f"m{n:08}"))
        rows.add(batches([*facts, Fact("settled", at + 9, f"t{n % 5}", "g", f"m{n:08}", source="/s")]))
    rows.write()
    for query in (Query(repeated=Repeated.ANY), Query(repeated=Repeated.PUBLISH, topic="t0")):
        with database_work("ledger") as cost:
            assert len(search.search(ALL, query).messages) == 10
        # Without the indexes of repetitions, or with a walk over a topic for each, it is some hundred times that.
        cost.at_most(5_000, query)


@pytest.mark.parametrize(
    ("kind", "told"), [("any", (True, True)), ("publish", (True, False)), ("delivery", (False, True))]
)
def test_where_nothing_was_repeated_the_page_says_what_would_be_listed(
    sign_in: Callable[..., Client], kind: str, told: tuple[bool, bool]
) -> None:
    kept(SystemClock().now_ms())
    message("once", AT)
    page = sign_in().get(f"/messages/?repeated={kind}").content.decode()
    assert "Nothing was found repeated in this time" in page
    assert ("idempotency key" in page, "the inbox has seen" in page) == told
