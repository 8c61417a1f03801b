"""What the ledger tells is archived beside the messages: each row once, and all that it says."""

from __future__ import annotations

import json
from io import StringIO

import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.db import connections
from django.test import Client

from engine.bus.facts import Fact
from engine.core.clock import to_datetime
from engine.pipeline.lake.schema import DELIVERIES, PUBLISHED, key_hash
from engine.pipeline.lake.state import Kind
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.evidence.router import LEDGER
from hbus_console.messages import places
from hbus_console.messages.models import LedgerEvent, LedgerMessage, LedgerPlace, LedgerRelease
from hbus_console.pipelines import ledger_archiving, ledger_rows
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC
from tests.hbus_console.pipelines.ledger import AT, OTHER, book, ids, losses, published, rows, run, settled, trim

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"], transaction=True),
    pytest.mark.usefixtures("topic"),
]

WHY = "the auditors ask for it"


def test_all_that_the_ledger_has_is_in_it_as_columns() -> None:
    book(
        published(1, correlation_id="c", causation_id="m0", trace_id="f" * 32, duration_us=77),
        published(2, key=""),
        Fact(
            "retried", AT + 9, TOPIC, subscription="billing", message_id="m1", source="/t", attempt=1, duration_us=12,
            due_ms=AT + 50, node="n1", error="boom", fingerprint="abc", detail="later", stack_id="s1", stack="x",
        ),
        Fact("deduplicated", AT + 10, TOPIC, message_id="m2", source="/other"),
    )  # fmt: skip

    outcome = run()

    first, second = rows()
    assert first == {
        "row_id": LedgerMessage.objects.get(message_id="m1").pk, "message_id": "m1", "topic": TOPIC, "type": "t",
        "source": "/t", "key": "H-1", "correlation_id": "c", "causation_id": "m0", "trace_id": "f" * 32,
        "position": f"{AT + 1}-0", "size": 9, "published_at": to_datetime(AT + 1), "due_at": None, "stored_us": 77,
        "key_hash": key_hash("H-1"),
    }  # fmt: skip
    assert [second[name] for name in ("key", "key_hash", "correlation_id", "stored_us")] == [None] * 4
    failed, repeated = rows(Kind.DELIVERIES)
    assert failed == {
        "row_id": LedgerEvent.objects.get(kind="retried").pk, "message_id": "m1", "source": "/t", "topic": TOPIC,
        "subscription": "billing", "kind": "retried", "at": to_datetime(AT + 9), "attempt": 1, "duration_us": 12,
        "due_at": to_datetime(AT + 50), "node": "n1", "error": "boom", "fingerprint": "abc", "detail": "later",
        "stack_id": "s1", "key_hash": key_hash("m1"),
    }  # fmt: skip
    assert [repeated[name] for name in ("source", "subscription", "due_at", "error")] == [None] * 4
    assert outcome.rows == {Kind.PUBLISHED: {TOPIC: 2}, Kind.DELIVERIES: {TOPIC: 2}}
    assert (outcome.commits, outcome.files, losses(outcome)) == (1, 2, [])
    files = list(lake().state().files.values())
    assert [(file.kind, file.log, file.date, file.rows) for file in files] == [
        (Kind.PUBLISHED, "published", "2026-11-28", 2),
        (Kind.DELIVERIES, "deliveries", "2026-11-28", 2),
    ]
    for file, schema in zip(files, (PUBLISHED, DELIVERIES), strict=True):
        assert pq.read_schema(lake().root / file.path) == schema
        assert file.weight > 0
    assert list(lake().verify()) == []


def test_the_columns_leave_nothing_of_the_tables_out() -> None:
    """A field that a table gets is one that the lake has to have."""
    for source in ledger_rows.SOURCES:
        fields = {field.name for field in source.model._meta.fields} - {"id"} | {"pk"}
        assert set(source.columns.values()) == fields


def test_each_row_is_taken_once_and_where_nothing_is_new_nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_rows, "PAGE", 3)
    for start in range(0, 20, 5):
        book(*(fact for number in range(start, start + 5) for fact in (published(number), settled(number))))
        outcome = run()
        assert outcome.rows == {Kind.PUBLISHED: {TOPIC: 5}, Kind.DELIVERIES: {TOPIC: 5}}
        version, places_there = lake().version(), LedgerPlace.objects.count()
        assert run().commits == 0
        assert (lake().version(), LedgerPlace.objects.count()) == (version, places_there)
    assert ids() == ids(Kind.DELIVERIES) == [f"m{number}" for number in range(20)]
    files = lake().state().files_of(TOPIC, kind=Kind.PUBLISHED)
    assert [int(file.first) for file in files] == sorted(int(file.first) for file in files)
    # One place of each table is all that is left of those that were passed.
    assert LedgerPlace.objects.count() == 2


def test_what_comes_of_other_topics_is_committed_now_and_then_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    book(published(1))
    run()
    version = lake().version()
    book(*(published(number, "elsewhere") for number in range(10)))
    assert run().commits == 0
    assert LedgerPlace.objects.filter(table="ledgermessage").count() == 1

    monkeypatch.setattr(ledger_archiving, "LOOKED_THROUGH", 10)
    assert (run().commits, run().commits) == (1, 0)
    assert lake().version() == version + 1
    assert ids() == ["m1"]


def test_topics_come_to_different_places_and_each_row_is_taken_once() -> None:
    book(published(1), published(1, OTHER))
    run(TOPIC)
    book(published(2), published(2, OTHER))
    run(OTHER)
    book(published(3), published(3, OTHER))
    run(TOPIC, OTHER)
    assert ids() == ids(topic=OTHER) == ["m1", "m2", "m3"]


def test_a_message_that_waits_is_told_once_when_it_is_published() -> None:
    book(published(1, kind="delayed", due_ms=AT + 500), published(2))
    run()
    assert ids() == ["m2"]
    book(published(3))
    run()
    book(Fact("published", AT + 510, TOPIC, message_id="m1", source="/t", position="9-0", duration_us=7), published(4))
    outcome = run()

    assert outcome.rows == {Kind.PUBLISHED: {TOPIC: 2}}
    assert ids() == ["m1", "m2", "m3", "m4"]
    (waited,) = (row for row in rows() if row["message_id"] == "m1")
    assert (waited["due_at"], waited["published_at"]) == (to_datetime(AT + 500), to_datetime(AT + 510))
    assert (waited["position"], waited["stored_us"]) == ("9-0", 7)
    assert ids(Kind.DELIVERIES) == ["m1"], "that it was accepted for later"
    assert run().commits == 0


def test_a_message_that_was_published_before_anybody_looked_is_told_once() -> None:
    book(published(1, kind="delayed", due_ms=AT + 500), published(2))
    book(Fact("published", AT + 510, TOPIC, message_id="m1", source="/t", duration_us=7))
    assert LedgerRelease.objects.count() == 1
    run()
    book(published(3))
    run()
    assert ids() == ["m1", "m2", "m3"]


def test_a_message_that_is_published_while_it_is_archived_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    book(published(1, kind="delayed", due_ms=AT + 500), published(2))
    once = [Fact("published", AT + 510, TOPIC, message_id="m1", source="/t", position="9-0")]
    waited = places.wait_for_writers

    def publish_meanwhile(model: places.LedgerRows) -> None:
        if once:
            book(once.pop())
        waited(model)

    monkeypatch.setattr(ledger_archiving, "wait_for_writers", publish_meanwhile)
    for _ in range(3):
        run()
    assert ids() == ["m1", "m2"]


def test_what_notes_that_a_message_was_published_is_put_back_after_a_migration_that_lost_it() -> None:
    """SQLite rebuilds a table to alter it, and drops its triggers with the old one."""
    with connections[LEDGER].cursor() as cursor:
        cursor.execute(
            "DROP TRIGGER ledger_release"
            + (" ON ledger_ledgermessage" if connections[LEDGER].vendor == "postgresql" else "")
        )
    for _ in range(2):
        call_command("migrate", "ledger", database=LEDGER, verbosity=0)
    book(published(1, kind="delayed", due_ms=AT + 500))
    book(Fact("published", AT + 510, TOPIC, message_id="m1", source="/t", position="9-0"))
    assert LedgerRelease.objects.count() == 1


def test_a_row_that_is_changed_otherwise_is_not_told_again() -> None:
    """Whoever published it tells late what the search for lost publishes had found."""
    book(published(1, kind="untold"))
    run()
    book(published(1, duration_us=7))
    book(published(2))
    run()
    assert ids() == ["m1", "m2"]
    assert LedgerRelease.objects.count() == 0


def archive(*words: str) -> str:
    out = StringIO()
    call_command("archive", *words, stdout=out)
    return out.getvalue()


def test_the_run_the_status_and_the_files_tell_of_the_ledger(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    book(*(published(number) for number in range(3)), settled(1))

    told = archive("run")

    assert "Of the ledger 3 published and 1 of deliveries in 2 files, " in told
    assert told.startswith("40 messages of 1 topic in 1 file")
    assert archive("run") == "Nothing waited.\n"
    assert f"{TOPIC}: 40 messages, " in archive("status")
    assert "; the ledger up to 2026-11-28T12:00:00.006Z" in archive("status")
    (path,) = archive("files", TOPIC, "--kind", "deliveries").splitlines()
    assert "/deliveries/" in path
    assert "/messages/" in archive("files", TOPIC)
    assert archive("files", TOPIC, "--kind", "published", "--to", "2020-01-01") == ""
    book(*(published(number) for number in range(3, 9)))
    trim(2)
    told = archive("run")
    assert told.startswith("Of the ledger 2 published and 0 of deliveries in 1 file")
    assert f"4 rows of the ledger of {TOPIC}, published, were gone before they were archived: trimmed." in told
    assert ", 4 rows of it lost" in archive("status")
    book(published(9))
    of_store, of_ledger, upkeep = map(json.loads, archive("run", "--json").splitlines())
    # The day of these rows is over, so all of a kind that fits into one file comes into one.
    assert upkeep == {"gone": [], "compacted": {"merged": 2, "made": 1}, "exported": []}
    assert (of_store["messages"], of_ledger["rows"]) == ({}, {"published": {TOPIC: 1}})


def test_over_http_and_on_the_page(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    book(*(published(number) for number in range(3)), settled(1))
    archive("run")
    client = Client()
    client.force_login(User.objects.get(username="gov"))

    body = json.loads(client.get(f"/api/v1/archive/topics/{TOPIC}").content)

    assert (body["messages"], body["published"], body["deliveries"], body["files"]) == (40, 3, 1, 3)
    assert (body["ledger_upto"], body["ledger_lost"], body["lost"]) == ("2026-11-28T12:00:00.006Z", 0, 0)
    assert "ledger:" not in client.get("/archive/").content.decode()
    book(*(published(number) for number in range(3, 9)))
    trim(2)
    archive("run")
    body = json.loads(client.get(f"/api/v1/archive/topics/{TOPIC}").content)
    assert (body["ledger_lost"], body["ledger_uncounted_losses"], body["lost"]) == (4, 0, 0)
    shown = client.get("/archive/").content.decode()
    assert "ledger: 4" in shown
    assert "gone before" not in shown


def test_what_is_not_archived_leaves_no_trace_in_the_ledger(governor: Actor) -> None:
    book(*(published(number) for number in range(6)), *(settled(number) for number in range(6)))
    trim(3)
    assert LedgerMessage.objects.count() == 3
    assert not LedgerPlace.objects.exists()
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    stop_archiving(governor, TOPIC, WHY)
    book(published(7))
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    assert ids() == ["m3", "m4", "m5", "m7"]
