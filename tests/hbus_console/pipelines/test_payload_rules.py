"""By which version of a schema a payload is judged, and what is told where some of it is masked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from engine.bus import Message
from engine.bus.message import encode
from engine.bus.transport import Outgoing
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.audit.fitting import StoredPayload
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.models import BusAudit
from hbus_console.pipelines.payload_rules import SchemasOfTopic
from hbus_console.schemas.models import SchemaVersion
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, WHY, work

HOUR_MS = 3_600_000
Answer = Callable[..., str]


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


#: What was a number became text, three hours ago and an hour ago.
VERSIONS = [(1, 3, schema(room={"type": "integer"})), (2, 1, schema(room={"type": "string"}))]


@pytest.fixture
def now_ms() -> int:
    return round(timezone.now().timestamp() * 1000)


@pytest.fixture
def bookings(db: None) -> Topic:
    made = Topic.objects.create(name=TOPIC, team=Team.objects.create(name="Bookings", contact="b@hotel.example"))
    for version, hours, body in VERSIONS:
        have(made, version, hours, body)
    made.created_at = timezone.now() - timedelta(hours=5)
    made.save()
    return made


def have(topic: Topic, version: int, hours_ago: float, body: object) -> None:
    row = SchemaVersion.objects.create(topic=topic, version=version, body=body, created_by="ana")
    SchemaVersion.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(hours=hours_ago))


@pytest.fixture
def fault(now_ms: int) -> Answer:
    def ask(topic: Topic, text: str | None, hours_ago: float, said: str = "", made: float | None = None) -> str:
        stored_ms = now_ms - round(hours_ago * HOUR_MS)
        made_ms = stored_ms if made is None else now_ms - round(made * HOUR_MS)
        return SchemasOfTopic(topic).fault(StoredPayload(text, text is None, said, stored_ms, made_ms))

    return ask


NUMBER, TEXT = '{"room": 7}', '{"room": "7"}'


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ((NUMBER, 4, ""), ""),
        ((TEXT, 4, ""), ""),
        ((NUMBER, 2, ""), ""),
        ((TEXT, 2, ""), "room must be of type integer, as version 1 of the schema says"),
        ((TEXT, 0.5, ""), ""),
        ((NUMBER, 0.5, ""), "room must be of type string, as version 2 of the schema says"),
        # Just after the change a publisher may not have known of it, and just before it one may have.
        ((NUMBER, 0.99, ""), ""),
        ((TEXT, 1.01, ""), ""),
        # What it says it was judged by, it was, however long it waited.
        ((NUMBER, 0.5, f"urn:hbus:schema:{TOPIC}:1"), ""),
        ((TEXT, 0.5, f"urn:hbus:schema:{TOPIC}:1"), "room must be of type integer, as version 1 of the schema says"),
        # That was not there yet, or is none of this topic.
        ((TEXT, 2, f"urn:hbus:schema:{TOPIC}:2"), "room must be of type integer, as version 1 of the schema says"),
        ((TEXT, 2, "urn:hbus:schema:other:2"), "room must be of type integer, as version 1 of the schema says"),
        (("{", 0.5, ""), "the payload is no JSON that can be read, as version 2 of the schema says"),
        ((None, 0.5, ""), "the payload is no JSON, as version 2 of the schema says"),
    ],
)
def test_it_is_judged_by_the_version_that_held(
    bookings: Topic, fault: Answer, asked: tuple[str | None, float, str], wrong: str
) -> None:
    assert fault(bookings, *asked) == wrong


def test_what_waited_is_judged_by_what_held_when_it_was_made(bookings: Topic, fault: Answer) -> None:
    assert fault(bookings, NUMBER, 0.5, made=2) == ""
    assert fault(bookings, TEXT, 0.5, made=4) == ""


def test_no_payload_is_none_that_fits(bookings: Topic, now_ms: int) -> None:
    said = SchemasOfTopic(bookings).fault(StoredPayload(None, False, "", now_ms, now_ms))
    assert said == "there is no payload, as version 2 of the schema says"


@pytest.mark.parametrize(
    ("masked", "text", "told"),
    [
        (["room"], NUMBER, ""),
        (["room"], "{}", "room is required"),
        (["guest.name"], NUMBER, "room must be of type string"),
        # Hidden whole: its fields cannot be told apart.
        (["room.number"], NUMBER, ""),
        (["guest"], '{"room": 7, "room": 7}', ""),
        (["*"], NUMBER, ""),
    ],
)
def test_what_is_masked_is_taken_for_kept(
    bookings: Topic, fault: Answer, masked: list[str], text: str, told: str
) -> None:
    bookings.masked_fields = masked
    assert fault(bookings, text, 0.5).partition(",")[0] == told


def test_no_answer_hangs_on_a_masked_value(bookings: Topic, fault: Answer) -> None:
    """Found by a stranger: whoever may edit the schema could try guesses at a value, and its size."""
    guess = {"if": {"properties": {"ssn": {"const": "right"}}}, "then": {}, "else": {"required": ["nope"]}}
    have(bookings, 3, 0.8, guess)
    bookings.masked_fields = ["ssn"]
    assert fault(bookings, '{"ssn": "right"}', 0.5) == fault(bookings, '{"ssn": "wrong"}', 0.5) == ""


def test_a_payload_of_which_it_would_take_long_to_say_what_it_breaks_is_no_finding(
    bookings: Topic, fault: Answer
) -> None:
    """It was taken when it was published: where something is masked, only to be told in words it is too much."""
    body = {
        "properties": {"stays": {"items": {"type": "integer", "minimum": 0, "maximum": 9}}, "ssn": {"maxLength": 9}}
    }
    have(bookings, 3, 0.8, body)
    bookings.masked_fields = ["ssn"]
    stays = ",".join("7" * 200_000)
    assert fault(bookings, f'{{"stays": [{stays}], "ssn": "1"}}', 0.5) == ""
    assert fault(bookings, f'{{"stays": [{stays}], "ssn": "1234567890"}}', 0.5) == ""
    assert fault(bookings, '{"stays": [10], "ssn": "1"}', 0.5).startswith("stays[0] must be at most 9")


def test_a_schema_that_no_longer_compiles_accuses_nobody(bookings: Topic, fault: Answer) -> None:
    have(bookings, 3, 0.8, {"$ref": "https://elsewhere.example/schema"})
    assert fault(bookings, NUMBER, 0.5) == fault(bookings, "7", 0.5) == ""


def test_what_lay_in_a_former_topic_of_the_name_is_not_judged(bookings: Topic, fault: Answer, now_ms: int) -> None:
    """Found by a stranger: who made the topic anew, unmasked, judged by a schema of their own what had been masked."""
    bookings.created_at = timezone.now() - timedelta(minutes=40)
    assert fault(bookings, NUMBER, 0.7) == fault(bookings, NUMBER, 0.7, f"urn:hbus:schema:{TOPIC}:2") == ""
    assert fault(bookings, NUMBER, 0.5) != ""
    assert SchemasOfTopic(bookings).digest(now_ms - 41 * 60_000) == ""


def test_the_name_of_the_rules_changes_with_what_they_say_of_those_files_and_with_nothing_else(
    bookings: Topic, now_ms: int
) -> None:
    def name(hours_ago: float) -> str:
        return SchemasOfTopic(Topic.objects.get()).digest(now_ms - round(hours_ago * HOUR_MS))

    before = [name(4), name(2), name(0.5)]
    assert before[0] == ""
    assert len({*before}) == 3
    have(bookings, 3, 0, schema())
    assert [name(4), name(2), name(0.5)] == before
    Topic.objects.update(masked_fields=["guest"])
    assert name(4) == ""
    assert before[1] != name(2) != name(0.5) != before[2]


def test_topics_without_a_schema_cost_nothing(db: None, now_ms: int) -> None:
    plain = Topic.objects.create(name="plain")
    assert SchemasOfTopic(plain).digest(now_ms) == ""


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_what_was_written_past_the_check_is_found_and_named(archived: Actor, tmp_path: Path) -> None:
    Topic.objects.filter(name=OTHER).update(created_at=timezone.now() - timedelta(hours=2))
    have(Topic.objects.get(name=OTHER), 1, 1, schema(n={"type": "integer"}))
    for number, n in (("fits", 1), ("breaks", "one")):
        body = encode(Message(id=number, source="/tests", type="t", data={"n": n}))  # type: ignore[arg-type]
        bus.transport().publish(OTHER, [Outgoing(number, body)])
    run_archive(wanted_topics([]), in_this_process)
    work(ask_audit(archived, WantedAudit([OTHER], reason=WHY)), tmp_path)

    newest = BusAudit.objects.get()
    client = Client()
    client.force_login(User.objects.get(username=archived.name))
    page = client.get(f"/audits/{newest.pk}/findings/?check=schemas").content.decode()
    assert "1 payload breaks the schema that was its" in page
    assert "n must be of type integer, as version 1 of the schema says" in page
    assert f"/messages/breaks?topic={OTHER}" in page
    assert "/messages/fits" not in page
