"""Who may not reveal what a topic masks is told no size that its payloads add to, nor whether two are the same:
archive, series, audits, advice."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from engine.bus import Message
from engine.bus.facts import Fact
from engine.bus.message import encode
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock
from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.functions import find_function
from engine.cron.work.log_spool import LogSpool
from engine.pipeline.lake.state import LakeState
from engine.pipeline.rollup.forecast import Forecast
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.pipelines import advice
from hbus_console.pipelines.audits import working
from hbus_console.pipelines.feature import AUDIT_JOB, JOB
from hbus_console.pipelines.models import BusAudit, SeriesPoint
from hbus_console.pipelines.services import archive_topic
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser, publish
from tests.hbus_console.pipelines.ledger import book
from tests.hbus_console.pipelines.test_advice import NOW, file, lake_of

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "the auditors ask for it"
OTHER = "payment.taken"
FORECAST = Forecast(30, 9.0, 8.0, 10.0, 0.0, 41, 38, 45)
NOT_TOLD = "Not told: it would tell apart what is masked"
As = Callable[[str], Client]


@pytest.fixture
def archived(governor: Actor, tmp_path: Path) -> str:
    """Two topics of which one masks a field, and what the run of the job said."""
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    publish(7, OTHER)
    for name in (TOPIC, OTHER):
        archive_topic(governor, name, WHY)
    return _work(JOB, tmp_path)


def _work(job: str, folder: Path, **parameters: object) -> str:
    outcome = find_function(job).run(
        RunContext(RunCall(1, job, 1, 1, 1, "w", parameters=parameters), LogSpool(folder / job, 1, 1))
    )
    assert outcome.done, outcome.error
    return str(outcome.summary)


@pytest.fixture
def as_(make_user: MakeUser) -> As:
    def signed_in(role: str) -> Client:
        client = Client()
        client.force_login(make_user(role, "*", name=f"a-{role}"))
        return client

    return signed_in


def sizes(client: Client) -> dict[str, object]:
    rows = client.get("/api/v1/archive/topics").json()["results"]
    for row in rows:
        assert client.get(f"/api/v1/archive/topics/{row['topic']}").json() == row
    return {row["topic"]: row["bytes"] for row in rows}


def test_packed_files_of_a_topic_that_masks_have_no_size(archived: str, as_: As) -> None:
    told, whole = sizes(as_("operator")), sizes(as_("governor"))
    assert told[TOPIC] is None
    assert told[OTHER] == whole[OTHER]
    assert all(whole.values())


def test_no_sum_on_the_page_tells_it_by_what_is_left(archived: str, as_: As) -> None:
    for role, hidden in (("operator", True), ("governor", False)):
        said = as_(role).get("/archive/").content.decode()
        assert (NOT_TOLD in said) is hidden
        assert ("in 2 files</span>" in said) is hidden
        assert ("in 2 files, " in said) is not hidden


def test_a_run_says_of_no_size(archived: str) -> None:
    assert archived == "47 messages of 2 topics in 2 files."


def test_what_a_former_topic_of_the_name_left_has_no_size(archived: str, as_: As) -> None:
    Topic.objects.update(masked_fields=[])
    viewer = as_("viewer")
    assert all(sizes(viewer).values())
    Topic.objects.filter(name=TOPIC).update(created_at=timezone.now() + timedelta(seconds=1))
    assert sizes(viewer)[TOPIC] is None


def test_no_span_of_a_series_has_a_size(archived: str, as_: As) -> None:
    at = int(time.time()) // 60 * 60 + 120
    for name in (TOPIC, OTHER):
        SeriesPoint.objects.create(topic=name, resolution="minute", at=at, stored=1, bytes=321)

    def told(client: Client, name: str) -> list[object]:
        query = f"resolution=minute&from={(at - 60) * 1000}&to={(at + 60) * 1000}"
        answer = client.get(f"/api/v1/archive/topics/{name}/series?{query}")
        return [(point["stored"], point["bytes"]) for point in answer.json()["points"]]

    viewer = as_("viewer")
    assert (told(viewer, TOPIC), told(viewer, OTHER)) == ([(1, None)], [(1, 321)])
    assert told(as_("governor"), TOPIC) == [(1, 321)]
    Topic.objects.filter(name=OTHER).update(created_at=timezone.now() + timedelta(seconds=300))
    assert told(viewer, OTHER) == [(1, None)], "it lay in another topic of the name"


def _weights(topic: dict[str, Any]) -> set[object]:
    """Whatever stands for bytes, in the whole and in its windows."""
    amounts = [place[name] for place in (topic, *topic["windows"]) for name in ("published", "archived", "replayed")]
    return {amount["bytes"] for amount in amounts if amount is not None}


def test_no_audit_tells_it_signed_or_not(
    archived: str, as_: As, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(round(time.time() * 1000) + 3_600_000)
    monkeypatch.setattr(working, "SystemClock", lambda: clock)
    # Older than the windows in which its messages were stored.
    Topic.objects.update(created_at=timezone.now() - timedelta(days=2))
    _work(AUDIT_JOB, tmp_path)
    number = BusAudit.objects.get().pk

    def told(client: Client) -> dict[str, set[object]]:
        whole = client.get(f"/api/v1/audits/{number}").json()
        signed = json.loads(base64.b64decode(client.get(f"/audits/{number}/audit.json").json()["payload"]))
        assert signed["topics"] == whole["topics"]
        return {topic["topic"]: _weights(topic) for topic in whole["topics"]}

    seen, whole = told(as_("operator")), told(as_("governor"))
    assert seen[TOPIC] == {None}
    assert None not in whole[TOPIC] | whole[OTHER]
    assert seen[OTHER] == whole[OTHER]
    Topic.objects.update(created_at=timezone.now() + timedelta(days=2))
    assert all(weights == {None} for weights in told(as_("viewer")).values())


def test_growth_is_told_to_nobody_who_would_know_it_by_what_is_masked(
    archived: str, as_: As, make_user: MakeUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Topic.objects.update(created_at=timezone.now() - timedelta(days=2_000))
    state = lake_of(*(file(TOPIC, back, 100) for back in range(9)))
    seer = actor_of(make_user("operator", "*", name="sees"))
    assert not advice.capacity(seer, state, tmp_path, NOW).weighed
    assert advice.capacity(seer, lake_of(file(OTHER, 3)), tmp_path, NOW).weighed
    assert not advice.capacity(seer, lake_of(file("was.deleted", 3)), tmp_path, NOW).weighed
    assert advice.capacity(seer, LakeState(), tmp_path, NOW).weighed

    monkeypatch.setattr(advice, "forecast", lambda grown, free: FORECAST)
    told = {}
    for role in ("operator", "governor"):
        told[role] = " ".join(as_(role).get("/archive/advice/").content.decode().split())
    assert "it is full within 90 days" in told["operator"]
    assert NOT_TOLD in told["operator"]
    assert "growth" not in told["operator"]
    assert "full in <b>41 days</b>" in told["governor"]
    assert "<dt>growth</dt>" in told["governor"]


def test_the_store_has_no_size_on_the_page_of_a_topic_that_masks(topic: Topic, as_: As) -> None:
    viewer = as_("viewer")

    def held() -> str:
        return viewer.get(f"/topics/{TOPIC}/").content.decode().partition("In the store")[2][:900]

    assert " · kept " in held()
    Topic.objects.update(masked_fields=["guest"])
    assert " · kept " not in held()
    assert "kept " in held()


FORMS = ("json", "csv", "html")


@pytest.mark.parametrize("again", [b'{"n":1}', b'{"n":2}'], ids=["right", "wrong"])
def test_no_audit_tells_whether_a_guess_at_a_payload_was_right(
    again: bytes, governor: Actor, as_: As, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a stranger: whoever may publish stores a guess under the id of a message that is masked."""
    Topic.objects.filter(name=TOPIC).update(masked_fields=["n"])
    archive_topic(governor, TOPIC, WHY)
    for data in (b'{"n":1}', again):
        body = encode(Message(id="guessed", source="/tests", type="t", partitionkey="k", data=data))  # type: ignore[arg-type]
        bus.transport().publish(TOPIC, [Outgoing(data.hex(), body)])
    _work(JOB, tmp_path)
    clock = ManualClock(round(time.time() * 1000) + 3_600_000)
    monkeypatch.setattr(working, "SystemClock", lambda: clock)
    _work(AUDIT_JOB, tmp_path)
    found = BusAudit.objects.get()
    (copy,) = bus.admin().browse(TOPIC, limit=1).entries
    book(Fact("published", copy.at_ms, TOPIC, message_id="guessed", source="/tests", position=copy.position))

    operator, governing = as_("operator"), as_("governor")

    def told(client: Client) -> str:
        pages = [f"/audits/{found.pk}/", f"/audits/{found.pk}/findings/", f"/api/v1/audits/{found.pk}"]
        pages += [f"/audits/{found.pk}/audit.{form}" for form in FORMS] + [f"/messages/guessed?topic={TOPIC}"]
        answers = [client.get(each) for each in pages]
        assert all(each.status_code == 200 for each in answers)
        words = [each.getvalue() if each.streaming else each.content for each in answers]
        signed = json.loads(client.get(f"/audits/{found.pk}/audit.json").content)
        return b"".join([*words, base64.b64decode(signed["payload"])]).decode().lower()

    apart = ("another payload", "again, as it was", "conflicting", '"duplicate"', "stored again")
    assert not [word for word in apart if word in told(operator)]
    assert "once a message was stored under an id and source that were taken" in told(operator)
    assert any(word in told(governing) for word in apart)
    assert "stored 2 times" in told(operator)
    assert operator.get(f"/audits/{found.pk}/audit.parquet").status_code == 404
    assert governing.get(f"/audits/{found.pk}/audit.parquet").status_code == 200


def test_no_audit_tells_where_an_envelope_breaks_or_which_payload_breaks_a_schema_once_it_is_masked(
    governor: Actor, as_: As, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a stranger: at which byte tells how long what is before it is, and a rule told of what was masked later
    what it holds."""
    row = Topic.objects.get(name=TOPIC)
    Topic.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(hours=2))
    body = {"properties": {"n": {"maximum": 1000}}}
    made = SchemaVersion.objects.create(topic=row, version=1, body=body, created_by="ana")
    SchemaVersion.objects.filter(pk=made.pk).update(created_at=timezone.now() - timedelta(hours=1))
    archive_topic(governor, TOPIC, WHY)
    broken = b'{"specversion":"1.0","id":"x","source":"/w","type":"t","data":{"n":"777"},}'
    rich = encode(Message(id="rich", source="/tests", type="t", data={"n": 1001}))  # type: ignore[arg-type]
    bus.transport().publish(TOPIC, [Outgoing("x", broken), Outgoing("rich", rich)])
    _work(JOB, tmp_path)
    clock = ManualClock(round(time.time() * 1000) + 3_600_000)
    monkeypatch.setattr(working, "SystemClock", lambda: clock)
    _work(AUDIT_JOB, tmp_path)
    Topic.objects.filter(pk=row.pk).update(masked_fields=["n"])
    found = BusAudit.objects.get()

    def told(client: Client) -> str:
        pages = [f"/audits/{found.pk}/findings/", f"/api/v1/audits/{found.pk}"]
        pages += [f"/audits/{found.pk}/audit.{form}" for form in FORMS]
        answers = [client.get(each) for each in pages]
        words = [each.getvalue() if each.streaming else each.content for each in answers]
        signed = json.loads(client.get(f"/audits/{found.pk}/audit.json").content)
        return b"".join([*words, base64.b64decode(signed["payload"])]).decode()

    hidden, whole = told(as_("operator")), told(as_("governor"))
    assert not [word for word in ("(byte ", "trailing", "at most 1000", "rich") if word in hidden]
    assert not [word for word in ("(byte ", "must be at most 1000", "rich") if word not in whole]
    assert "It is no CloudEvents 1.0 envelope." in hidden
    assert "1 payload breaks the schema that was its" in hidden
    assert "Which ones is told to who may reveal what the topic masks." in hidden
