from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import transaction
from django.test import Client

from engine.core.errors import NotThere
from engine.core.subject import Subject
from hbus_console.audit.services import record
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages import attempt_chart as lanes
from hbus_console.messages import graph, services
from hbus_console.messages.message_trace import Life
from hbus_console.messages.models import LedgerEvent
from hbus_console.messages.timeline import who
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.messages.conftest import AT, TOPIC, event, message, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ALL = person("operator")


@pytest.fixture
def life_of_trouble() -> None:
    """Settled by two, dead in the third after five attempts, then redriven and settled."""
    topic = Topic.objects.create(name=TOPIC)
    for group in ("availability", "billing", "partner-sync"):
        Subscription.objects.create(topic=topic, group=group)
    message("m1", AT, key="b/1", correlation_id="req-9f21c0", stored_us=1_100)
    event("m1", "settled", 5, "availability", attempt=1, duration_us=3_800, node="consumer-2")
    event("m1", "settled", 6, "billing", attempt=1, duration_us=6_000, node="consumer-1")
    at = 10
    for attempt, pause in ((1, 2_000), (2, 4_000), (3, 8_000), (4, 16_000)):
        event("m1", "retried", at, "partner-sync", attempt=attempt, duration_us=1_204_000, node="consumer-3",
              error="UnknownRoomCode: DBL-SEA", fingerprint="7c1f9a00", due_ms=AT + at + pause)  # fmt: skip
        at += pause + 1_204
    event("m1", "dead", at, "partner-sync", attempt=5, duration_us=1_204_000, error="UnknownRoomCode: DBL-SEA",
          fingerprint="7c1f9a00")  # fmt: skip
    letter = DeadLetter.objects.create(
        topic=TOPIC, subscription="partner-sync", message_id="m1", source="/hotels/reservations-api", position="1-0",
        body=b"{}", cause="UnknownRoomCode: …", error="UnknownRoomCode: DBL-SEA", fingerprint="7c1f9a00", attempts=5,
        first_failed_at=_at(10), died_at=_at(at), state="redriven", decided_by="ops-lisbon", decided_at=_at(1_700_000),
        reason="room code map 2.4.2 deployed", redriven_as="m2",
    )  # fmt: skip
    with transaction.atomic():
        record(ALL, "dead_letter.redrive", Subject("message", TOPIC, "m1"), reason=letter.reason,
               after={"letter": letter.pk, "redriven_as": "m2"})  # fmt: skip
    message("m2", AT + 1_700_400, causation_id="m1", correlation_id="req-9f21c0")
    event("m2", "settled", 1_700_500, "partner-sync", attempt=1, duration_us=88_000)
    message("m3", AT + 7, causation_id="m1", source="/hotels/billing", type="invoice.drafted", topic="invoice.drafted")


def _at(after_ms: int) -> datetime:
    return datetime.fromtimestamp((AT + after_ms) / 1000, tz=UTC)


def life(message_id: str = "m1") -> Life:
    return services.life(ALL, message_id)


@pytest.mark.usefixtures("life_of_trouble")
def test_a_life_is_told_in_plain_words_and_in_order() -> None:
    told = services.timeline(ALL, "m1")
    assert [moment.sentence for moment in told] == [
        "Published by reservations-api · key b/1 · stored in 1.1 ms",
        "Settled by availability · attempt 1 · consumer-2 · 3.8 ms",
        "Settled by billing · attempt 1 · consumer-1 · 6 ms",
        "Attempt 1 failed in partner-sync · UnknownRoomCode: DBL-SEA · consumer-3 · 1.2 s · retry in 2 s",
        "Attempts 2 to 4 failed in partner-sync · same cause · then waited 4 s, 8 s, 16 s",
        "Dead in partner-sync · UnknownRoomCode: DBL-SEA · 5 attempts in 36 s · fingerprint 7c1f9a",
        "Redrive asked by ops-lisbon · “room code map 2.4.2 deployed”",
        "Redriven as m2 · new id, caused by this one · settled by partner-sync at attempt 1 in 88 ms",
    ]
    assert [moment.offset(AT) for moment in told[:3]] == ["+0", "+5 ms", "+6 ms"]
    assert [moment.tone for moment in told] == ["ok", "ok", "ok", "warn", "warn", "bad", "act", "info"]
    assert told[6].audit_seq is not None
    assert told[7].leads_to == "m2"


@pytest.mark.usefixtures("life_of_trouble")
@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((), "waits for partner-sync"),
        (("retried", "retried"), "2 attempts failed so far"),
        (("retried", "parked"), "set aside with its key in partner-sync"),
        (("retried", "skipped"), "skipped by a person"),
        (("expired",), "expired before it was handled"),
        (("deduplicated",), "settled"),
        (("passed",), "the store is done with it, and nobody told what became of it"),
        (("lost",), "the store no longer has it, and nobody told what became of it before"),
    ],
)
def test_what_became_of_a_redriven_copy_is_told_by_its_kind(kinds: tuple[str, ...], said: str) -> None:
    LedgerEvent.objects.filter(message_id="m2").delete()
    for number, kind in enumerate(kinds):
        event("m2", kind, 1_700_500 + number, "partner-sync", attempt=1)
    (redriven,) = [moment for moment in services.timeline(ALL, "m1") if moment.kind == "redriven"]
    assert redriven.notes == ("new id, caused by this one", said)


@pytest.mark.usefixtures("life_of_trouble")
def test_a_copy_for_one_is_done_when_that_one_is_though_its_envelope_is_gone(sign_in: Callable[..., Client]) -> None:
    found = life("m2")
    assert found.envelope is None
    assert [(lane.name, lane.waits) for lane in lanes.lanes_of(found)] == [("partner-sync", False)]
    assert services.timeline(ALL, "m2")[0].notes == ("for partner-sync alone",)
    page = sign_in().get("/messages/m2").content.decode()
    assert '<span class="badge ok">settled</span>' in page
    assert '<span class="badge warn">waiting</span>' not in page


@pytest.mark.usefixtures("life_of_trouble")
def test_an_edited_redrive_leads_to_its_entry() -> None:
    letter = DeadLetter.objects.get()
    with transaction.atomic():
        edited = record(ALL, "dead_letter.edit", Subject("message", "stay.completed", "m9"), reason="typo",
                        after={"letter": letter.pk})  # fmt: skip
    message("m9", AT, topic="stay.completed")
    DeadLetter.objects.update(topic="stay.completed", message_id="m9")
    (asked,) = [moment for moment in services.timeline(ALL, "m9") if moment.kind == "redrive"]
    assert asked.audit_seq == edited.seq


@pytest.mark.usefixtures("life_of_trouble")
def test_who_may_not_read_the_audit_log_still_sees_the_decision() -> None:
    told = services.timeline(person("viewer"), "m1")
    assert told[6].sentence.startswith("Redrive asked by ops-lisbon")
    assert told[6].audit_seq is None


@pytest.mark.usefixtures("life_of_trouble")
def test_attempts_are_drawn_to_scale_in_a_lane_for_each_subscription() -> None:
    found = {lane.name: lane for lane in lanes.lanes_of(life())}
    assert list(found) == ["availability", "billing", "partner-sync"]
    bars = found["partner-sync"].bars
    assert [bar.tone for bar in bars] == ["bad"] * 5
    assert [bar.says for bar in bars] == ["waits 2 s", "waits 4 s", "waits 8 s", "waits 16 s", "dead"]
    assert bars[1].end_ms - bars[1].start_ms == 1_204
    svg = lanes.draw(life())
    assert svg.count("<rect") == 7
    assert ">20 s<" in svg


@pytest.mark.usefixtures("life_of_trouble")
def test_cause_and_effects_are_drawn_with_where_they_lead() -> None:
    svg = graph.draw(life())
    assert "req-9f21c0" in svg
    assert 'href="/messages/m3?topic=invoice.drafted&amp;source=%2Fhotels%2Fbilling"' in svg
    assert "by billing" in svg
    assert "redriven as" in svg
    assert f'href="/messages/m2?topic={TOPIC}&amp;source=%2Fhotels%2Freservations-api"' in svg
    assert svg.count("<rect") == 4
    copy = graph.draw(life("m2"))
    assert "caused by" in copy
    assert f'href="/messages/m1?topic={TOPIC}&amp;source=' in copy


def test_no_word_of_the_picture_is_longer_than_its_box_and_the_whole_is_in_its_title() -> None:
    name = "c42ae191-1496-made-of-words-00505-ended"
    message(name, correlation_id="correlation-of-a-day-" * 4)
    svg = graph.draw(life(name))
    words = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert ">c42ae19…-ended<" in svg
    assert max(map(len, words)) <= 16
    assert f"<title>this message {name}</title>" in svg


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/hotel/reservations-api", "reservations-api"),
        ("/hotel/simulated-1/14938/", "simulated-1/14938"),
        ("14938", "14938"),
        ("https://billing.example", "billing.example"),
        ("/", "/"),
    ],
)
def test_a_publisher_is_called_by_a_name_and_not_by_a_number_alone(source: str, name: str) -> None:
    assert who(source) == name


def test_names_are_escaped_in_pictures() -> None:
    message("m1", correlation_id='"><script>')
    event("m1", "settled", 5, "<b>")
    assert "<script>" not in graph.draw(life())
    assert "<b>" not in lanes.draw(life())


def test_a_subscription_that_has_not_begun_has_a_lane_that_says_so() -> None:
    Subscription.objects.create(topic=Topic.objects.create(name=TOPIC), group="billing")
    message("m1")
    assert [(lane.name, lane.waits) for lane in lanes.lanes_of(life())] == [("billing", True)]
    assert "not handled yet" in lanes.draw(life())


def test_failures_of_another_cause_are_told_apart() -> None:
    message("m1")
    event("m1", "retried", 5, attempt=1, error="A", fingerprint="a")
    event("m1", "retried", 6, attempt=2, error="B", fingerprint="b")
    event("m1", "retried", 7, attempt=3, error="B", fingerprint="b")
    event("m1", "settled", 8, attempt=4)
    told = [moment.sentence for moment in services.timeline(ALL, "m1")]
    assert told[1:] == [
        "Attempt 1 failed in billing · A",
        "Attempt 2 failed in billing · B",
        "Attempt 3 failed in billing · same cause",
        "Settled by billing · attempt 4",
    ]


def test_a_delayed_message_tells_when_it_was_accepted_and_whether_it_was_on_time() -> None:
    message("m1", AT + 60_000, due_ms=AT + 59_900)
    event("m1", "delayed", 0, "", due_ms=AT + 59_900)
    told = services.timeline(ALL, "m1")
    assert told[0].sentence.startswith("Accepted from reservations-api, due at ")
    assert told[1].sentence == "Due, and published for reservations-api · on time"
    assert told[1].offset(life().published_ms) == "+1 m"


@pytest.mark.parametrize(
    ("kind", "subscription", "words"),
    [
        ("deduplicated", "", "Published again with the same key: not stored"),
        ("deduplicated", "billing", "Delivered again: handled before by billing · its handler was not run"),
        ("expired", "billing", "Expired before it was handled by billing"),
        ("released", "billing", "Handed back unhandled by billing"),
        ("lease_lost", "billing", "The lease ran out in billing · another consumer has it now"),
    ],
)
def test_every_kind_of_event_has_its_words(kind: str, subscription: str, words: str) -> None:
    message("m1")
    event("m1", kind, 5, subscription)
    assert services.timeline(ALL, "m1")[1].sentence == words


def test_a_message_the_ledger_has_forgotten_lives_on_in_its_dead_letter() -> None:
    Topic.objects.create(name=TOPIC)
    Topic.objects.update(created_at=_at(0))
    DeadLetter.objects.create(
        topic=TOPIC, subscription="billing", message_id="old", source="/s", position="1-0",
        body=b'{"specversion":"1.0","id":"old","source":"/s","type":"t","data":{"room":1}}', cause="X", error="X",
        fingerprint="f", attempts=1, first_failed_at=_at(0), died_at=_at(5),
    )  # fmt: skip
    found = life("old")
    assert found.entry is None
    assert found.payload is not None
    assert found.payload.value == {"room": 1}
    assert found.type == "t"


def test_an_unknown_message_and_one_out_of_scope_are_both_not_there() -> None:
    message("m1")
    Topic.objects.create(name=TOPIC)
    for actor, message_id in ((ALL, "nope"), (person("admin", "stay.*"), "m1")):
        with pytest.raises(NotThere):
            services.life(actor, message_id)


def test_the_picture_counts_only_what_it_knows() -> None:
    message("m1")
    for number in range(7):
        message(f"e{number}", causation_id="m1")
    assert ">2 others<" in graph.draw(life("m1"))
    for number in range(7, 50):
        message(f"e{number}", causation_id="m1")
    assert ">many others<" in graph.draw(life("m1"))


@pytest.fixture
def dies_again(life_of_trouble: None) -> DeadLetter:
    """The copy dies too, and is redriven as ``m4``."""
    LedgerEvent.objects.filter(message_id="m2").delete()
    event("m2", "dead", 1_700_500, "partner-sync", attempt=2, error="UnknownRoomCode: DBL-SEA", fingerprint="7c1f9a00")
    letter = DeadLetter.objects.get()
    letter.pk = None
    letter.message_id, letter.redriven_as, letter.position = "m2", "m4", "2-0"
    letter.save(force_insert=True)
    message("m4", AT + 1_800_000, causation_id="m2", correlation_id="req-9f21c0")
    return letter


def test_the_last_of_what_was_redriven_again_and_again_is_told_where_it_began(
    dies_again: DeadLetter, sign_in: Callable[..., Client]
) -> None:
    client = sign_in()

    def told() -> tuple[str, list[tuple[str, str]]]:
        (moment,) = [each for each in services.timeline(ALL, "m1") if each.sentence.startswith("Redriven as m2")]
        html = client.get(f"/messages/m1?topic={TOPIC}").content.decode()
        found = re.findall(r'<span class="badge (\w+)">(redriven[^<]*)<', html)
        return moment.sentence.rpartition(" · ")[2], found

    assert told() == ("it died again, and was redriven as m4: waits for partner-sync", [("act", "redriven")])
    event("m4", "settled", 1_800_100, "partner-sync", attempt=1, duration_us=88_000)
    ends = "it died again, and was redriven as m4: settled by partner-sync at attempt 1 in 88 ms"
    assert told() == (ends, [("ok", "redriven, settled")])
    LedgerEvent.objects.filter(message_id="m4").delete()
    event("m4", "dead", 1_800_100, "partner-sync", attempt=3)
    ends = "it died again, and was redriven as m4: dead in partner-sync again after 3 attempts"
    assert told() == (ends, [("bad", "redriven, dead again")])
    # Nothing is owed any more once somebody has discarded that.
    letter = DeadLetter.objects.get(message_id="m2")
    letter.pk, letter.message_id, letter.redriven_as, letter.position = None, "m4", "", "3-0"
    letter.state = DeadLetter.State.DISCARDED
    letter.save(force_insert=True)
    assert told() == (f"{ends}, and discarded there", [("act", "redriven, then discarded")])
