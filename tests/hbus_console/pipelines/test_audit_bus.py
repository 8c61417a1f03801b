"""``manage.py audit_bus`` on a topic in the real store: what it says, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import time
from io import StringIO

import pytest
from django.core.management import call_command

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, NotThere
from engine.pipeline.archive.tasks import in_this_process
from hbus_console.access.permissions import Actor
from hbus_console.audit.models import AuditEntry
from hbus_console.pipelines import auditing
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.models import BusAudit
from hbus_console.pipelines.services import archive_topic
from tests.hbus_console.pipelines.conftest import TOPIC, store_twice

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "the auditors ask for it"


@pytest.fixture
def archived(governor: Actor) -> Actor:
    archive_topic(governor, TOPIC, WHY)
    run_archive(wanted_topics([]), in_this_process)
    return governor


@pytest.fixture
def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored is closed by then."""
    clock = ManualClock(round(time.time() * 1000) + 3_600_000)
    monkeypatch.setattr(auditing, "SystemClock", lambda: clock)


def audit(*words: str) -> str:
    out = StringIO()
    call_command("audit_bus", *words, stdout=out)
    return out.getvalue()


@pytest.mark.usefixtures("an_hour_later")
def test_what_is_wrong_is_told_with_samples_and_ends_with_1(archived: Actor) -> None:
    store_twice("twice", b'{"n":1}')
    run_archive(wanted_topics([]), in_this_process)

    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("audit_bus", stdout=out)

    assert ended.value.code == 1
    said = out.getvalue()
    assert said.startswith(f"{TOPIC}: wrong. ")
    assert "  wrong: once a message was stored again, as it was\n    twice of /tests" in said
    assert said.endswith("wrong: 1 topic, 2 files, 2 of them looked through anew.\n")


def test_what_is_not_closed_is_open_and_no_fault(archived: Actor) -> None:
    assert "judged once the archive has it and it has all its outcomes, or is 10 minutes old.\n" in audit()
    report = json.loads(audit("--json"))
    assert report["verdict"] == "open"
    assert [(topic["topic"], topic["archived"]["messages"]) for topic in report["topics"]] == [(TOPIC, 0)]


@pytest.mark.usefixtures("an_hour_later")
def test_one_that_is_kept_is_on_the_page_and_in_the_audit_log(archived: Actor) -> None:
    with pytest.raises(BadInput) as refused:
        audit("--keep")
    assert (refused.value.field, BusAudit.objects.count()) == ("reason", 0)

    audit("--keep", "--reason", "After the incident")

    kept, entry = BusAudit.objects.get(), AuditEntry.objects.latest("pk")
    assert [each.topic for each in kept.topics.all()] == [TOPIC]
    assert (entry.action, entry.reason, entry.after["audit"]) == ("bus-audit.run", "After the incident", kept.pk)


@pytest.mark.usefixtures("an_hour_later")
def test_files_are_looked_through_once(archived: Actor) -> None:
    first, second = json.loads(audit("--json", TOPIC)), json.loads(audit("--json", TOPIC))
    assert (first["computed"], second["computed"]) == (1, 0)
    assert first["topics"] == second["topics"]
    assert first["topics"][0]["archived"]["messages"] == 40


def test_a_lake_without_messages_says_how_to_get_some(governor: Actor) -> None:
    assert "archive on TOPIC" in audit()


def test_what_is_not_there_or_no_instant_is_refused(archived: Actor) -> None:
    with pytest.raises(NotThere) as unknown:
        audit("never.was")
    assert unknown.value.field == "topic"
    with pytest.raises(BadInput) as refused:
        audit("--from", "yesterday")
    assert refused.value.field == "--from"


@pytest.mark.usefixtures("an_hour_later")
def test_on_spark_it_says_the_same(archived: Actor) -> None:
    before = dict(os.environ)
    there = json.loads(audit("--json", "--spark"))
    assert dict(os.environ) == before
    assert there["computed"] == 1
    assert json.loads(audit("--json"))["topics"] == there["topics"]
