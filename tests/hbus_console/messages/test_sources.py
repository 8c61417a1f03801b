"""Publishers choose ids: what another source publishes under a message's id in its topic is another message, and
nothing that happens to it is told of the first."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from engine.bus.facts import Fact, batches
from engine.bus.subjects import message_subject
from engine.core.clock import to_datetime
from engine.core.errors import NotThere
from hbus_console.audit.services import record
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.messages import search, services, views
from hbus_console.messages.became import Became, open_of
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.messages.outcomes import outcomes
from hbus_console.messages.repeats import Repeated
from hbus_console.messages.search import Query
from hbus_console.operations.outcomes import Made
from hbus_console.subscriptions import order_page
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.messages.conftest import AT, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

TOPIC, GROUP, ID = "booking.changed", "billing", "copy-1"
OURS, EVIL = "/ours", "/evil"
ALL = person("admin")


@pytest.fixture(autouse=True)
def subscription() -> Subscription:
    made = Subscription.objects.create(topic=Topic.objects.create(name=TOPIC), group=GROUP)
    Subscription.objects.update(created_at=to_datetime(AT - 1_000))
    return made


@pytest.fixture
def world() -> None:
    """Ours failed once and waits for its next attempt; theirs, of the same id and published later, went well."""
    book(
        published(OURS, 0),
        Fact("retried", AT + 10, TOPIC, GROUP, ID, source=OURS, attempt=1, error="E: ours", due_ms=AT + 25_000),
        published(EVIL, 20, causation_id="cause"),
        Fact("settled", AT + 30, TOPIC, GROUP, ID, source=EVIL, attempt=1),
        Fact("deduplicated", AT + 40, TOPIC, GROUP, ID, source=EVIL, attempt=2),
    )


def published(source: str, after_ms: int, **more: Any) -> Fact:
    return Fact("published", AT + after_ms, TOPIC, "", ID, "k", "c", source=source, type="t", position="", **more)


def book(*facts: Fact) -> None:
    rows = Booking()
    rows.add(batches(facts))
    rows.write()


def made(source: str | None = OURS) -> Made:
    facets = {"subscription": GROUP} | ({} if source is None else {"source": source})
    return Made(message_subject(TOPIC, ID), to_datetime(AT), to_datetime(AT), facets)


def fate(one: Made) -> str:
    (told,) = outcomes([one])
    return told.outcome


def sources(query: Query) -> list[str]:
    return [row.source for row in search.search(ALL, query).messages]


@pytest.mark.usefixtures("world")
def test_an_operation_follows_the_copy_that_it_made() -> None:
    assert fate(made(OURS)) == "retrying"
    assert fate(made(EVIL)) == "settled"


@pytest.mark.usefixtures("world")
def test_an_operation_of_a_release_that_kept_no_source_goes_by_the_id() -> None:
    assert fate(made(None)) == "settled"


def test_evidence_of_a_release_that_kept_no_source_still_counts() -> None:
    book(published(OURS, 0), Fact("settled", AT + 30, TOPIC, GROUP, ID, source=OURS, attempt=1))
    LedgerEvent.objects.update(source=None)
    assert fate(made(OURS)) == "settled"
    (row,) = search.search(ALL, Query(id=ID)).messages
    assert search.outcomes([row])[row.identity].settled == {GROUP}
    assert [event.kind for event in services.life(ALL, ID).events] == ["settled"]


def test_a_death_of_the_other_is_not_ones_own() -> None:
    now = timezone.now()
    DeadLetter.objects.create(
        topic=TOPIC, subscription=GROUP, message_id=ID, source=EVIL, position="1-0", body=b"", cause="X", error="X",
        fingerprint="f", attempts=1, first_failed_at=now, died_at=now,
    )  # fmt: skip
    assert (fate(made(OURS)), fate(made(EVIL))) == ("waiting", "dead")


@pytest.mark.usefixtures("world")
def test_the_search_tells_them_apart() -> None:
    assert sources(Query(became=Became.RETRYING)) == [OURS]
    assert sources(Query(became=Became.UNSETTLED)) == [OURS]
    assert sources(Query(repeated=Repeated.ANY)) == [EVIL]
    assert sources(Query(repeated=Repeated.ANY, id=ID)) == [EVIL]
    rows = {row.message.source: row.outcome for row in views.rows_of(search.search(ALL, Query(id=ID)).messages)}
    assert (rows[OURS].settled, rows[OURS].retrying, rows[OURS].delivered_again) == (set(), {GROUP}, {})
    assert (rows[EVIL].settled, rows[EVIL].failed) == ({GROUP}, 0)


@pytest.mark.usefixtures("world")
def test_what_failed_last_does_not_hide_what_failed_before_it_elsewhere() -> None:
    book(Fact("retried", AT + 50, TOPIC, GROUP, "other", source=EVIL, attempt=1), published(EVIL, 0))
    book(Fact("dead", AT + 60, TOPIC, GROUP, ID, source=EVIL, attempt=1))
    book(Fact("dead", AT + 70, TOPIC, GROUP, ID, source=OURS, attempt=2))
    book(Fact("dead", AT + 80, TOPIC, GROUP, ID, source=EVIL, attempt=2))
    assert sources(Query(became=Became.DEAD)) == [EVIL, OURS]


def test_no_page_lists_what_another_page_lists() -> None:
    """What tells no source may be of both; ours has died again since."""
    book(published(OURS, 0), published(EVIL, 1), Fact("dead", AT + 10, TOPIC, GROUP, ID, source=OURS, attempt=1))
    LedgerEvent.objects.update(source=None)
    book(Fact("dead", AT + 20, TOPIC, GROUP, ID, source=OURS, attempt=2))
    query = Query(became=Became.DEAD)
    first = search.search(ALL, query, size=1)
    second = search.search(ALL, query, first.next_cursor, size=1)
    assert [[row.source for row in page.messages] for page in (first, second)] == [[OURS], [EVIL]]
    assert second.next_cursor == ""
    assert sources(query) == [OURS, EVIL]


def test_a_repeated_publish_is_found_whoever_repeated_it() -> None:
    """Who repeats a key knows the id that it stands for, and not its source."""
    book(published(OURS, 0), Fact("deduplicated", AT + 5, TOPIC, "", ID, source="/repeats", position="1-0"))
    book(Fact("deduplicated", AT + 9, TOPIC, GROUP, ID, source=OURS, attempt=2))
    assert sources(Query(repeated=Repeated.ANY)) == [OURS]
    assert sources(Query(repeated=Repeated.PUBLISH)) == [OURS]
    assert [event.subscription for event in services.life(ALL, ID).events] == ["", GROUP]


@pytest.mark.usefixtures("world")
def test_a_copy_for_one_subscription_is_told_from_what_names_the_same_cause() -> None:
    Subscription.objects.create(topic=Topic.objects.get(), group="audit")
    Subscription.objects.update(created_at=to_datetime(AT - 1_000))
    now = timezone.now()
    DeadLetter.objects.create(
        topic=TOPIC, subscription=GROUP, message_id="cause", source=OURS, position="1-0", body=b"", cause="X",
        error="X", fingerprint="f", attempts=1, first_failed_at=now, died_at=now, redriven_as=ID, state="redriven",
    )  # fmt: skip
    theirs = LedgerMessage.objects.get(source=EVIL)
    assert open_of([theirs]) == [True], "audit has not settled it"


@pytest.mark.usefixtures("world")
def test_a_page_shows_the_life_of_one_source(sign_in: Any) -> None:
    client: Client = sign_in()
    assert [event.kind for event in services.life(ALL, ID, TOPIC, OURS).events] == ["retried"]
    newest = services.life(ALL, ID)
    assert (newest.source, newest.other_sources) == (EVIL, [OURS])
    assert [event.kind for event in newest.events] == ["settled", "deduplicated"]
    with pytest.raises(NotThere):
        services.life(ALL, ID, TOPIC, "/nobody")
    page = client.get(f"/messages/{ID}?topic={TOPIC}&source={OURS}").content.decode()
    assert "E: ours" in page
    assert "Settled by" not in page
    assert f"/messages/{ID}?topic={TOPIC}&amp;source=%2Fevil" in page
    listed = client.get(f"/messages/?id={ID}").content.decode()
    assert f"/messages/{ID}?topic={TOPIC}&amp;source=%2Fours" in listed
    answer = client.get(f"/api/v1/messages/{ID}", {"topic": TOPIC, "source": OURS}).json()
    assert (answer["source"], answer["other_sources"]) == (OURS, [EVIL])
    assert [moment["kind"] for moment in answer["timeline"]] == ["published", "retried"]
    timeline = client.get(f"/api/v1/messages/{ID}/timeline", {"topic": TOPIC, "source": EVIL}).json()["results"]
    assert [moment["kind"] for moment in timeline] == ["published", "settled", "deduplicated"]


@pytest.mark.usefixtures("world")
def test_what_was_revealed_of_the_other_is_not_told_of_ones_own() -> None:
    record(ALL, "payload.reveal", message_subject(TOPIC, ID), reason="why", after={"fields": [], "source": EVIL})
    assert [moment.kind for moment in services.timeline(ALL, ID, TOPIC, OURS)] == ["published", "retried"]
    assert "revealed" in [moment.kind for moment in services.timeline(ALL, ID, TOPIC, EVIL)]


@pytest.mark.usefixtures("world")
def test_the_order_of_a_key_tells_them_apart(subscription: Subscription) -> None:
    ours, theirs = order_page.key_view(subscription, "k", [], []).steps
    assert (ours.state, theirs.state) == ("retrying", "settled")
    (blocked,) = order_page.build(subscription, "", AT + 1_000, told_from=None).blocked
    assert (blocked.message_id, blocked.source) == (ID, OURS)
