"""Publishers choose ids: a message is known by its topic and its id, and no topic's evidence shows in another's."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from engine.bus.facts import Fact, batches
from engine.core.errors import NotThere
from hbus_console.access.permissions import Forbidden
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.messages import graph, reveal, search, services, views
from hbus_console.messages.addresses import page_of
from hbus_console.messages.finding import find
from hbus_console.messages.models import LedgerMessage
from hbus_console.messages.repeats import Repeated
from hbus_console.messages.search import Query
from hbus_console.subscriptions import order_page
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.costs import database_work
from tests.hbus_console.messages.conftest import AT, message, person, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

MINE, SECRET, ID = "mine.x", "secret.pay", "order-1"
OPERATOR = person("operator", "mine.*", "mallory")
ALL = person("viewer")
#: Of the secret topic's events alone.
ERROR = "card 4111 refused for Anna"


@pytest.fixture
def world() -> None:
    """Two topics in which messages of one id were published, by one source, an hour apart."""
    for name in (MINE, SECRET):
        Subscription.objects.create(topic=Topic.objects.create(name=name), group="billing")
    rows = Booking()
    for facts in (
        [_published(SECRET, AT, "7-0"),
         Fact("retried", AT + 10, SECRET, "billing", ID, source="/pay", attempt=1, error=ERROR),
         Fact("dead", AT + 20, SECRET, "billing", ID, source="/pay", attempt=2, error=ERROR),
         Fact("deduplicated", AT + 30, SECRET, "", ID)],
        [_published(MINE, AT + 3_600_000, "9-1"),
         Fact("settled", AT + 3_600_010, MINE, "billing", ID, source="/pay", attempt=1)],
    ):  # fmt: skip
        rows.add(batches(facts))
    rows.write()
    now = timezone.now()
    DeadLetter.objects.create(topic=SECRET, subscription="billing", message_id=ID, source="/pay", position="7-0",
                              body=b"{}", cause=ERROR, error=ERROR, fingerprint="f", attempts=2, key="k",
                              first_failed_at=now, died_at=now)  # fmt: skip


def _published(topic: str, at_ms: int, position: str) -> Fact:
    return Fact("published", at_ms, topic, "", ID, "k", "c", source="/pay", type="pay", position=position)


@pytest.mark.usefixtures("world")
def test_one_topics_message_does_not_rewrite_anothers() -> None:
    rows = {row.topic: (row.position, row.published_ms) for row in LedgerMessage.objects.filter(message_id=ID)}
    assert rows == {SECRET: ("7-0", AT), MINE: ("9-1", AT + 3_600_000)}


def test_what_was_delayed_is_still_one_row_whichever_comes_first() -> None:
    for topic, order in ((MINE, (0, 1)), (SECRET, (1, 0))):
        facts = [Fact("delayed", AT, topic, "", ID, source="/pay", due_ms=AT + 5), _published(topic, AT + 5, "3-0")]
        for index in order:
            rows = Booking()
            rows.add(batches([facts[index]]))
            rows.write()
    assert set(LedgerMessage.objects.values_list("topic", "position")) == {(MINE, "3-0"), (SECRET, "3-0")}


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("position", ["8-0", ""])
def test_another_message_of_the_same_id_and_source_does_not_take_its_place(position: str) -> None:
    """Found by a stranger: the page of the first showed the payload of the second, and revealed that."""
    rows = Booking()
    forged = Fact("published", AT + 50, SECRET, "", ID, source="/pay", type="x", position=position, duration_us=90)
    rows.add(batches([forged]))
    rows.write()
    kept = LedgerMessage.objects.get(message_id=ID, topic=SECRET)
    assert (kept.position, kept.published_ms, kept.stored_us, kept.type) == ("7-0", AT, 0, "pay")


@pytest.mark.usefixtures("world")
def test_a_message_of_ones_own_shows_nothing_of_another_topics() -> None:
    life = services.life(OPERATOR, ID)
    assert (life.topic_name, life.other_topics, life.letters) == (MINE, [], [])
    assert [event.kind for event in life.events] == ["settled"]
    assert [moment.kind for moment in services.timeline(OPERATOR, ID)] == ["published", "settled"]
    (row,) = views.rows_of(search.search(OPERATOR, Query(id=ID)).messages)
    assert (row.outcome.settled, row.outcome.dead, row.outcome.failed, row.waiting) == ({"billing"}, set(), 0, 0)
    assert row.outcome.published_again == 0
    assert [hit.note for group in find(OPERATOR, ID) for hit in group.hits] == [MINE]
    with pytest.raises(NotThere):
        services.life(OPERATOR, ID, SECRET)


@pytest.mark.usefixtures("world")
def test_the_topic_chooses_among_messages_of_one_id() -> None:
    newest, secret = services.life(ALL, ID), services.life(ALL, ID, SECRET)
    assert (newest.topic_name, newest.other_topics) == (MINE, [SECRET])
    assert (secret.topic_name, secret.other_topics, len(secret.letters)) == (SECRET, [MINE], 1)
    assert [event.kind for event in secret.events] == ["retried", "dead", "deduplicated"]
    rows = {row.message.topic: row for row in views.rows_of(search.search(ALL, Query(id=ID)).messages)}
    assert (rows[SECRET].waiting, rows[MINE].waiting) == (1, 0)
    assert (rows[SECRET].outcome.dead, rows[MINE].outcome.dead) == ({"billing"}, set())


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("exactly", [{}, {"id": ID}])
def test_a_repetition_is_that_of_its_own_topics_message(exactly: dict[str, str]) -> None:
    found = search.search(ALL, Query(repeated=Repeated.ANY, **exactly)).messages
    assert [row.topic for row in found] == [SECRET]
    assert not search.search(OPERATOR, Query(repeated=Repeated.ANY, **exactly)).messages


def test_a_repetition_in_ones_own_topic_brings_no_message_of_another() -> None:
    for name in (MINE, SECRET):
        Topic.objects.create(name=name)
        message(ID, topic=name)
    rows = Booking()
    rows.add(batches([Fact("deduplicated", AT + 30, MINE, "", ID)]))
    rows.write()
    assert [row.topic for row in search.search(OPERATOR, Query(repeated=Repeated.ANY)).messages] == [MINE]


@pytest.mark.usefixtures("world")
def test_the_order_of_a_key_knows_its_own_topics_events() -> None:
    row = Subscription.objects.select_related("topic").get(topic__name=MINE)
    (step,) = order_page.key_view(row, "k", [], []).steps
    assert (step.state, [event.kind for event in step.events]) == ("settled", ["settled"])


@pytest.mark.usefixtures("world")
def test_a_copy_redriven_from_a_letter_is_its_own_topics() -> None:
    DeadLetter.objects.update(state="redriven", decided_at=timezone.now(), decided_by="x", redriven_as="copy")
    message("copy", AT + 50, topic=MINE, causation_id=ID)
    rows = Booking()
    rows.add(batches([Fact("settled", AT + 60, MINE, "billing", "copy", source="/hotels/reservations-api", attempt=1)]))
    rows.write()
    life = services.life(ALL, ID, SECRET)
    assert not life.copies
    assert [box.href for box in graph.after(life)] == [
        page_of(MINE, "copy", "/hotels/reservations-api"),
        page_of(SECRET, "copy", "/pay"),
    ]


@pytest.mark.usefixtures("world")
def test_every_answer_and_file_keeps_to_the_topic(sign_in: Any) -> None:
    mallory: Client = sign_in("operator", "mine.*")
    for address in (
        f"/messages/{ID}",
        f"/messages/evidence/{ID}",
        f"/messages/?id={ID}",
        "/messages/?repeated=any&range=7d",
        f"/api/v1/messages/{ID}",
        f"/api/v1/messages/{ID}/timeline",
        f"/api/v1/messages?id={ID}",
        "/api/v1/messages?repeated=any",
    ):
        answer = mallory.get(address)
        assert answer.status_code == 200, address
        assert "4111" not in answer.content.decode(), address
        assert SECRET not in answer.content.decode(), address
    for address in (f"/messages/{ID}", f"/messages/evidence/{ID}", f"/api/v1/messages/{ID}"):
        assert mallory.get(f"{address}?topic={SECRET}").status_code == 404, address


@pytest.mark.usefixtures("world")
def test_the_page_leads_to_the_other_topics_message_and_its_links_stay_in_its_own(sign_in: Any) -> None:
    client: Client = sign_in()
    page = client.get(f"/messages/{ID}").content.decode()
    assert f"/messages/{ID}?topic={SECRET}" in page
    other = client.get(f"/messages/{ID}?topic={SECRET}").content.decode()
    assert "4111" in other
    assert f"/messages/evidence/{ID}?topic={SECRET}" in other
    assert f"/api/v1/messages/{ID}?topic={SECRET}" in other
    listed = client.get(f"/messages/?id={ID}").content.decode()
    assert f"/messages/{ID}?topic={SECRET}" in listed
    assert f"/messages/{ID}?topic={MINE}" in listed
    assert client.get(f"/api/v1/messages/{ID}?topic={SECRET}").json()["other_topics"] == [MINE]
    assert f"/messages/{ID}?topic={SECRET}" in client.get("/dead-letters/?open=f&range=7d").content.decode()


def test_what_is_revealed_is_the_named_topics(book: Any) -> None:
    guest = {"guest": {"name": "Ana Lima"}}
    first = publish(guest, message_id=ID)
    assert publish({"n": 1}, "stay.completed", message_id=ID) == first
    book()
    governor = person("governor", "booking.*")
    found = reveal.reveal(governor, ID, "guest asks", topic_name="booking.changed")
    assert found.payload.value == guest
    assert (found.entry.subject.namespace, found.entry.subject.name) == ("booking.changed", ID)
    with pytest.raises(Forbidden):
        reveal.reveal(person("viewer"), ID, "why", topic_name="booking.changed")


@pytest.mark.usefixtures("world")
def test_one_message_is_found_by_its_index_among_many() -> None:
    rows = Booking()
    for n in range(20_000):
        published = Fact("published", AT + n, SECRET, "", f"m{n}", source="/pay", position="1-0")
        rows.add(batches([published, Fact("settled", AT + n, SECRET, "billing", f"m{n}", source="/pay", attempt=1)]))
    rows.write()
    with database_work("ledger") as cost:
        services.life(ALL, "m777", SECRET)
        search.outcomes([LedgerMessage(topic=SECRET, message_id="m777")])
    cost.at_most(2_000, "one message of a topic of twenty thousand")
