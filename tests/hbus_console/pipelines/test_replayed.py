"""How many of a topic's messages were replayed, and into where: on the page, in exports and in text."""

from __future__ import annotations

import base64
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.test import Client

from engine.bus import Message
from engine.bus.message import encode
from engine.bus.transport import Outgoing
from engine.pipeline.archive.tasks import in_this_process
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.audits import exporting, reading
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.models import BusAudit
from hbus_console.wiring import bus
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, WHY, MakeUser, work

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def store_copies(into: str, of: list[tuple[str, str]]) -> None:
    """As a replay does."""
    outgoing = []
    for number, (name, source) in enumerate(of):
        copy = Message(
            id=f"{into}-{number}", source=source, type="t", causationid=name, hbusreplay="replay", data={"n": number}
        )
        outgoing.append(Outgoing(copy.id, encode(copy)))
    bus.transport().publish(into, outgoing)


@pytest.fixture
def made(archived: Actor, tmp_path: Path) -> BusAudit:
    """Seven messages of forty have copies in the other topic, and two of them in their own as well."""
    rows: list[tuple[str, str]] = []
    for path in lake().paths(lake().state().files_of(TOPIC)):
        table = pq.read_table(path, columns=["id", "source"]).to_pylist()
        rows += [(each["id"], each["source"]) for each in table if each["source"] != "/tests"]
    assert len(rows) == 40
    store_copies(OTHER, rows[:7])
    store_copies(TOPIC, rows[5:9])
    run_archive(wanted_topics([]), in_this_process)
    work(ask_audit(archived, WantedAudit([TOPIC, OTHER], reason=WHY)), tmp_path)
    return BusAudit.objects.get()


def copied(who: Actor, made: BusAudit) -> dict[str, Any]:
    told = exporting.content(reading.seen_audit(who, made.pk), who)
    return {each["topic"]: (each["copied"], each["copied_into"]) for each in told["topics"]}


def test_it_is_told_of_each_topic_and_of_all(made: BusAudit, archived: Actor) -> None:
    assert copied(archived, made) == {TOPIC: (9, {TOPIC: 4, OTHER: 7}), OTHER: (0, {})}
    seen = reading.seen_audit(archived, made.pk)
    (line,) = [each for each in seen.also if each.title == "Replayed"]
    assert line.says == f"of 60 archived, 9 were replayed since: 4 into {TOPIC}, 7 into {OTHER}"
    assert (line.count, [each.copied for each in seen.lines]) == (9, [9, 0])


def test_page_export_and_command_have_it(made: BusAudit) -> None:
    client = Client()
    client.force_login(User.objects.get(username="gov"))
    said = f"9 were replayed since: 4 into {TOPIC}, 7 into {OTHER}"
    assert said in client.get(f"/audits/{made.pk}/").content.decode()
    assert said in " ".join(client.get(f"/audits/{made.pk}/audit.html").content.decode().split())
    envelope = json.loads(client.get(f"/audits/{made.pk}/audit.json").content)
    assert json.loads(base64.b64decode(envelope["payload"]))["topics"][0]["copied"] == 9
    out = StringIO()
    # Of a message that was stored twice there is something else to tell.
    with pytest.raises(SystemExit):
        call_command("audit_bus", TOPIC, "--to", "2100-01-01T00:00:00Z", stdout=out)
    assert f"  {said}\n" in out.getvalue()


def test_a_topic_that_one_may_not_see_has_no_name(made: BusAudit, make_user: MakeUser) -> None:
    who = actor_of(make_user("viewer", TOPIC, "narrow"))
    assert copied(who, made) == {TOPIC: (9, {TOPIC: 4, "another topic": 7})}
    client = Client()
    client.force_login(User.objects.get(username="narrow"))
    for form in ("html", "json", "csv"):
        answer = client.get(f"/audits/{made.pk}/audit.{form}")
        body = b"".join(answer) if answer.streaming else answer.content  # type: ignore[arg-type]
        assert OTHER.encode() not in (base64.b64decode(json.loads(body)["payload"]) if form == "json" else body)
    page = client.get(f"/audits/{made.pk}/").content.decode()
    assert "7 into another topic" in page
    assert OTHER not in page


def test_of_an_audit_of_a_release_before_nothing_is_told(made: BusAudit, archived: Actor) -> None:
    row = made.topics.get(topic=TOPIC)
    for name in ("copied", "copied_into"):
        del row.summary[name]
    row.save()
    assert reading.seen_audit(archived, made.pk).copied == 0
