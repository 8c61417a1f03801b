"""What retention took from a topic is replayed from the archive: each message once, in order, under the same rights."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.producer import Receipt
from engine.bus.transport import Stored
from engine.core.clock import to_datetime, to_rfc3339
from engine.core.errors import BadInput
from engine.pipeline.lake.erasure import erase
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.audit.models import AuditEntry
from hbus_console.operations import services
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.operations.runner import OperationRunner
from hbus_console.outbox.models import OutboxMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.replays import from_archive
from hbus_console.replays import kind as replays
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.models import Topic
from hbus_console.wiring.lake import lake
from tests.hbus_console.replays.archived import archive_all, store_in_lake, stored_entries, trim
from tests.hbus_console.replays.conftest import TOPIC, MakeUser, copies, replay, run, stored

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture(autouse=True)
def a_lake(settings: Settings, tmp_path: Path) -> None:
    settings.HBUS_LAKE = str(tmp_path / "lake")


def ask(**more: str) -> dict[str, str]:
    return {"topic": TOPIC, "read_from": "archive", "into_group": "availability", **more}


def begin(actor: Actor, **more: str) -> Operation:
    return services.start(actor, "replay", ask(**more), reason="lost last month", rate_per_s=0).operation


def test_what_is_gone_from_the_topic_comes_again_for_one_subscription(editor: Actor, published: list[Receipt]) -> None:
    originals = archive_all()

    operation = replay(editor, read_from="archive", into_group="availability")

    assert (operation.state, operation.done, operation.scanned) == ("settling", 40, 40)
    assert operation.note == "Scanned 40 of at most 40, matched 40, reached the end of the range"
    assert operation.title == f"Replay {TOPIC} from the archive into availability"
    made = copies()
    # As replays of the topic itself: in the order of storing, and naming their causes.
    assert [copy.causationid for copy in made] == [original.id for original in originals]
    for copy, original in zip(made, originals, strict=True):
        assert copy.id != original.id
        assert (copy.hbusreplay, copy.hbustarget) == ("replay", "availability")
        kept = ("source", "type", "partitionkey", "time", "data", "correlationid", "dataschema")
        assert [getattr(copy, name) for name in kept] == [getattr(original, name) for name in kept]
    entry = AuditEntry.objects.get(seq=operation.audit_seq)
    assert (entry.action, entry.after["spec"]["read_from"]) == ("operation.start", "archive")


def test_filters_keys_and_another_topic(editor: Actor, published: list[Receipt]) -> None:
    archive_all()
    replay(editor, read_from="archive", filter='payload.hotel == "Resort"', key="H-0", into_topic="booking.again")
    assert [message.json()["n"] for message in stored("booking.again")] == list(range(0, 40, 4))
    assert {message.hbustarget for message in stored("booking.again")} == {""}


def test_spans_that_follow_each_other_share_nothing(editor: Actor, published: list[Receipt]) -> None:
    moments = [1_790_000_000_000 + 1_000 * number for number in range(4)]
    entries = zip(stored_entries(), moments, strict=False)
    store_in_lake([msgspec.structs.replace(entry, at_ms=moment) for entry, moment in entries])
    Topic.objects.update(created_at=to_datetime(moments[0]))
    for from_ms, to_ms in ((moments[0], moments[2]), (moments[2], moments[3] + 1)):
        span = {"from_": to_rfc3339(from_ms), "to": to_rfc3339(to_ms)}
        replay(editor, read_from="archive", into_group="billing", **span)
    assert [copy.json()["n"] for copy in copies()] == [0, 1, 2, 3]


def twice(entries: list[Stored], *, elsewhere: bool) -> None:
    """The same messages in the same places, or behind them in another log."""
    store_in_lake(entries[10:20], log="p1" if elsewhere else "-")


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("step", [3, 200])
def test_a_message_that_is_there_twice_comes_once(
    editor: Actor, published: list[Receipt], elsewhere: bool, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.operations.runner.STEP", step)
    entries = stored_entries()
    archive_all()
    twice(entries, elsewhere=elsewhere)
    operation = replay(editor, read_from="archive", into_group="availability")
    assert [copy.json()["n"] for copy in copies()] == list(range(40))
    assert (operation.done, operation.failed) == (40, 0)


def test_no_message_passes_for_another() -> None:
    """Texts of a publisher's choosing, with what might end them in them."""
    pairs = (("a", "b', 'c"), ("a', 'b", "c"), ("a\0b", "c"), ("a", "b\0c"), ("\ud800", "c"), ("?", "c"))
    made = [Message(id=ident, source=source, type="t") for source, ident in pairs]
    keys = {from_archive._key_of("-", "1-0", message) for message in made}
    assert len({*keys, from_archive._key_of("-", "1-0", None), from_archive._key_of("", "-1-0", None)}) == 8


def test_what_was_erased_on_the_way_does_not_come(
    editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.operations.runner.STEP", 10)
    archive_all()
    operation = begin(editor)
    runner = OperationRunner()
    runner._advance(operation)
    erase(lake(), TOPIC, "H-1", by="gov", reason="asked for")
    run(operation)
    found = [copy.json()["n"] for copy in copies()]
    assert found == [*range(10), *range(10, 40, 2)]


def test_a_step_that_breaks_and_another_process_repeat_nothing(
    editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.operations.runner.STEP", 7)
    archive_all()
    operation = begin(editor)
    first = OperationRunner()
    first._advance(operation)
    monkeypatch.setattr(OperationRunner, "_write", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("killed")))
    operation.refresh_from_db()
    first._advance(operation)
    assert OutboxMessage.objects.count() == OperationItem.objects.count() == 7
    monkeypatch.undo()
    # As of one that starts: it has read nothing yet.
    from_archive.let_go(operation.pk)
    run(operation)
    assert [copy.json()["n"] for copy in copies()] == list(range(40))


def test_held_cancelled_and_resumed(editor: Actor, published: list[Receipt], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbus_console.operations.runner.STEP", 5)
    archive_all()
    operation = begin(editor)
    runner = OperationRunner()
    runner._advance(operation)
    services.pause(editor, operation.pk, "lunch")
    runner.tick()
    # Nothing is kept of what it does no more for now.
    assert from_archive._readers.take(operation.pk) is None
    assert OperationItem.objects.count() == 5
    services.resume(editor, operation.pk, "back")
    operation.refresh_from_db()
    runner._advance(operation)
    services.cancel(editor, operation.pk, "enough")
    runner.tick()
    run(operation)
    assert [copy.json()["n"] for copy in copies()] == list(range(10))
    assert operation.state == "cancelled"


def test_a_dry_run_tells_what_the_archive_has_and_what_not(editor: Actor, published: list[Receipt]) -> None:
    archive_all(gone=False)
    shared_producer().publish(TOPIC, {"n": 40, "guest": "g"}, PublishOptions(key="H-0"))
    erase(lake(), TOPIC, "H-1", by="gov", reason="asked for")

    plan = services.dry_run(editor, "replay", ask(filter="payload.n > 3") | {"from": "2020-01-01T00:00:00Z"})

    assert plan.total is None
    assert plan.scanned == "The files of the archive tell of 20 messages in this span; none was read"
    told = {line.label: (line.value, line.note, line.tone) for line in plan.findings}
    assert told["in the span"] == ("20 messages", "in 1 file, before filter", "")
    assert told["archived from"][2] == "warn"
    assert told["archived up to"][1:] == ("1 that wait to be archived may not come", "warn")
    assert told["erased"][0] == 20
    assert "schema" not in told
    assert copies() == []


def test_a_span_that_cuts_a_file_is_told_by_its_bounds(editor: Actor, published: list[Receipt]) -> None:
    first_ms = stored_entries()[0].at_ms
    archive_all()
    plan = services.dry_run(editor, "replay", ask(to=to_rfc3339(first_ms + 1)))
    last_ms = max(file.last_ms for file in lake().state().files.values())
    expected = "40 messages" if last_ms == first_ms else "0 to 40 messages"
    assert plan.scanned.startswith(f"The files of the archive tell of {expected}")
    nothing = services.dry_run(editor, "replay", ask(to=to_rfc3339(first_ms)))
    assert nothing.total == 0


def test_what_does_not_fit_the_schema_there_is_left(editor: Actor, admin: Actor, published: list[Receipt]) -> None:
    archive_all()
    into = Topic.objects.get(name="booking.again")
    body = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 4}}}
    SchemaVersion.objects.create(topic=into, version=1, body=body, created_by="ana")
    spec = {"topic": TOPIC, "read_from": "archive", "into_topic": into.name}
    told = {line.label: line.said for line in services.dry_run(admin, "replay", spec).findings}
    assert told["schema"] == into.name
    operation = replay(admin, read_from="archive", into_topic=into.name)
    assert (operation.done, operation.failed) == (5, 35)
    assert "does not fit the schema of booking.again" in OperationItem.objects.filter(result="failed")[0].detail


def test_a_damaged_lake_ends_it_and_says_why(editor: Actor, published: list[Receipt]) -> None:
    archive_all()
    operation = begin(editor)
    (file,) = lake().state().files_of(TOPIC)
    lake().root.joinpath(file.path).write_bytes(b"PAR1")
    run(operation)
    assert operation.state == "failed"
    assert "has other content than was committed" in operation.last_error
    assert copies() == []

    log = sorted(lake().root.joinpath("log").glob("*.json"))[0]
    log.write_text("{", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        begin(editor, key="H-0")
    assert refused.value.field == "spec.read_from"


def test_a_replay_of_what_the_topic_holds_says_that_the_archive_has_more(
    editor: Actor, published: list[Receipt]
) -> None:
    def said(**more: str) -> str:
        plan = services.dry_run(editor, "replay", {"topic": TOPIC, "into_group": "billing", **more})
        return " ".join(each for each in plan.warnings if "archive" in each)

    archive_all(gone=False)
    assert said() == "", "the topic has all of it still"
    trim()
    shared_producer().publish(TOPIC, {"n": 40, "guest": "g"}, PublishOptions(key="H-0"))
    (first,) = stored_entries()
    assert f"holds nothing from before {to_rfc3339(first.at_ms)} any more, and the archive does" in said()
    assert said(**{"from": to_rfc3339(first.at_ms)}) == ""
    sorted(lake().root.joinpath("log").glob("*.json"))[0].write_text("{", encoding="utf-8")
    assert "Commit 1 of the lake cannot be read" in said()


@pytest.mark.parametrize(
    ("more", "field", "says"),
    [
        ({"read_from": "tape"}, "spec.read_from", "nothing to read from"),
        ({"after": "1-0"}, "spec.after", "chosen by time"),
        ({"until": "1-0"}, "spec.until", "chosen by time"),
        ({"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T08:00:00Z"}, "spec.from", "range is empty"),
        ({"topic": "booking.again", "into_group": "", "into_topic": TOPIC}, "spec.read_from", "has nothing of"),
    ],
)
def test_what_is_asked_wrong_is_named(
    editor: Actor, published: list[Receipt], more: dict[str, str], field: str, says: str
) -> None:
    archive_all()
    with pytest.raises(BadInput, match=says) as refused:
        services.dry_run(editor, "replay", ask(**more))
    assert refused.value.field == field


@pytest.fixture
def moved(published: list[Receipt], settings: Settings) -> None:
    """To where nothing is kept, and that is away besides."""
    archive_all()
    settings.NSQD_URL = ["http://127.0.0.1:9"]
    Topic.objects.filter(name=TOPIC).update(transport="nsq")


@pytest.mark.usefixtures("moved")
def test_a_topic_that_moved_to_where_nothing_is_kept_is_replayed_all_the_same(editor: Actor) -> None:
    assert replay(editor, read_from="archive", into_topic="booking.again").done == 40


def test_copies_that_show_more_take_the_right_to_reveal(editor: Actor, admin: Actor, published: list[Receipt]) -> None:
    archive_all()
    Topic.objects.filter(name="booking.again").update(masked_fields=[])
    spec = {"topic": TOPIC, "read_from": "archive", "into_topic": "booking.again"}
    with pytest.raises(Forbidden, match=r"which booking\.again does not hide"):
        services.dry_run(editor, "replay", spec)
    assert "The audit log will say that you revealed it." in " ".join(services.dry_run(admin, "replay", spec).warnings)
    replay(admin, read_from="archive", into_topic="booking.again")
    entry = AuditEntry.objects.get(action="payload.reveal")
    assert (entry.actor, entry.after["fields"], entry.after["into_topic"]) == ("ada", ["guest"], "booking.again")


def test_what_is_older_than_the_topic_of_that_name_takes_it_as_well(
    editor: Actor, admin: Actor, published: list[Receipt]
) -> None:
    archive_all()
    Topic.objects.filter(name=TOPIC).update(masked_fields=[], created_at=timezone.now() + timedelta(seconds=5))
    with pytest.raises(Forbidden, match="before that topic was made"):
        services.dry_run(editor, "replay", ask())
    assert "older than booking.created" in " ".join(services.dry_run(admin, "replay", ask()).warnings)
    replay(admin, read_from="archive", into_group="availability")
    assert AuditEntry.objects.filter(action="payload.reveal").count() == 1


def test_it_takes_the_right_to_replay(topic: Topic, published: list[Receipt], make_user: MakeUser) -> None:
    archive_all()
    for role, scope in (("viewer", "*"), ("editor", "payment.*")):
        with pytest.raises(Forbidden):
            services.dry_run(actor_of(make_user(role, scope, role)), "replay", ask())


@pytest.fixture
def page(topic: Topic, make_user: MakeUser) -> Client:
    client = Client()
    client.force_login(make_user())
    return client


def test_the_form_offers_the_archive_where_it_has_something(page: Client, published: list[Receipt]) -> None:
    assert 'name="read_from"' not in page.get(f"/replays/{TOPIC}/").content.decode()
    archive_all()
    shown = page.get(f"/replays/{TOPIC}/").content.decode()
    assert '<option value="archive">the archive</option>' in shown
    assert "what the topic holds" in shown
    asked = {"read_from": "archive", "into_group": "billing", "starting": "", "dry": "run"}
    answer = page.get(f"/replays/{TOPIC}/", asked)
    assert answer.status_code == 302
    told = page.get(answer["Location"]).content.decode()
    assert "from the archive into billing" in told
    assert "40 messages" in told
    assert f"/replays/{TOPIC}/?" in told
    assert "read_from=archive" in told


@pytest.mark.usefixtures("moved")
def test_the_form_offers_the_archive_alone_where_the_topic_cannot_be_read(page: Client) -> None:
    shown = page.get(f"/replays/{TOPIC}/").content.decode()
    assert "This topic cannot be read back." not in shown
    assert "what the topic holds" not in shown
    assert '<option value="archive">the archive</option>' in shown


def test_the_form_says_that_the_archive_is_damaged(page: Client, published: list[Receipt]) -> None:
    archive_all()
    sorted(lake().root.joinpath("log").glob("*.json"))[0].write_text("{", encoding="utf-8")
    shown = page.get(f"/replays/{TOPIC}/")
    assert shown.status_code == 200
    assert "Commit 1 of the lake cannot be read" in shown.content.decode()
    refused = page.get(f"/replays/{TOPIC}/", {"read_from": "archive", "into_group": "billing", "dry": "run"})
    assert refused.status_code == 422


def test_what_the_archive_has_is_told_beside_the_form(page: Client, published: list[Receipt]) -> None:
    archive_all()
    told = page.get(f"/replays/{TOPIC}/test/", {"read_from": "archive"}).content.decode()
    assert "The files of the archive tell of 40 messages in this span" in told
    assert "archived up to" in told


def test_over_http(page: Client, published: list[Receipt]) -> None:
    archive_all()
    asked = {"kind": "replay", "spec": ask(key="H-1")}
    plan = page.post("/api/v1/operations/plan", asked, content_type="application/json").json()
    assert plan["total"] is None
    assert plan["findings"][0] == {"label": "in the span", "value": "40 messages", "note": "in 1 file, before key"}
    started = page.post(
        "/api/v1/operations",
        {**asked, "reason": "lost", "rate_per_s": 0, "horizon": plan["horizon"]},
        content_type="application/json",
    )
    assert started.status_code in (200, 201), started.content
    run(Operation.objects.get(pk=started.json()["operation"]["id"]))
    assert [copy.json()["n"] for copy in copies()] == list(range(1, 40, 2))
    wrong = page.post(
        "/api/v1/operations/plan",
        {"kind": "replay", "spec": ask(read_from="tape")},
        content_type="application/json",
    )
    assert wrong.json()["field"] == "spec.read_from", json.dumps(wrong.json())
    assert replays.KIND.name == "replay"
