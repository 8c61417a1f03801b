"""How long the lake keeps a topic, legal holds, and the erasure of a key: who may, what is told, and what goes."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput, NotThere
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.audit.sides import path_of_side
from engine.pipeline.lake.compaction import FAN
from engine.pipeline.lake.erasure import UnderHold
from engine.pipeline.lake.lake import GRACE_S, SWEEP_EVERY_S
from engine.pipeline.lake.state import Act, Kind, TopicRules
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.auditing import run_audit
from hbus_console.pipelines.erasing import erase_key
from hbus_console.pipelines.keeping import keep, rules_of
from hbus_console.pipelines.services import archive_topic
from hbus_console.pipelines.upkeep import keep_up
from hbus_console.topics.models import Topic
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser, kept, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "the contract says so"


@pytest.fixture
def archived(governor: Actor) -> Actor:
    archive_topic(governor, TOPIC, WHY)
    run_archive(wanted_topics([]), in_this_process)
    return governor


def test_rules_are_changed_one_by_one_and_told(governor: Actor) -> None:
    keep(governor, TOPIC, {"keep_days": 30}, WHY)
    keep(governor, TOPIC, {"hold": "case 12-4711"}, WHY)
    assert rules_of(TOPIC) == TopicRules(30, "case 12-4711")
    keep(governor, TOPIC, {"keep_days": None}, WHY)
    assert rules_of(TOPIC) == TopicRules(None, "case 12-4711")

    entries = AuditEntry.objects.filter(action="archive.keep", namespace=TOPIC).order_by("pk")
    assert [(entry.before, entry.after) for entry in entries][1] == (
        {"keep_days": 30, "hold": ""},
        {"keep_days": 30, "hold": "case 12-4711"},
    )
    assert [(commit.act, commit.by, commit.reason) for commit in lake().commits()] == [(Act.RULES, "gov", WHY)] * 3


def test_what_is_so_already_is_no_act(governor: Actor) -> None:
    keep(governor, TOPIC, {"keep_days": 30}, WHY)
    keep(governor, TOPIC, {"keep_days": 30}, WHY)
    assert AuditEntry.objects.filter(action="archive.keep").count() == 1
    assert lake().version() == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"keep_days": 0}, "keep_days"),
        ({"keep_days": 36_501}, "keep_days"),
        ({"keep_days": "a week"}, "keep_days"),
        ({"hold": "x" * 201}, "hold"),
        ({"hold": "a\x00b"}, "hold"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(governor: Actor, changes: dict[str, object], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        keep(governor, TOPIC, changes, WHY)
    assert refused.value.field == field
    assert rules_of(TOPIC) == TopicRules()


def test_who_does_not_govern_the_topic_is_refused(archived: Actor, make_user: MakeUser) -> None:
    for role, scope in (("operator", "*"), ("governor", "payment.*")):
        other = actor_of(make_user(role, scope, f"{role}-1"))
        with pytest.raises(Forbidden):
            keep(other, TOPIC, {"keep_days": 1}, WHY)
        with pytest.raises(Forbidden):
            erase_key(other, TOPIC, "H-1", WHY)
    assert rules_of(TOPIC) == TopicRules()
    assert len(kept()) == 40


def test_a_topic_that_was_deleted_is_kept_and_erased_by_its_name(archived: Actor) -> None:
    Topic.objects.filter(name=TOPIC).delete()
    keep(archived, TOPIC, {"keep_days": 7}, WHY)
    assert erase_key(archived, TOPIC, "H-1", WHY).rows[Kind.MESSAGES] == 13
    with pytest.raises(NotThere):
        keep(archived, "never.was", {"keep_days": 7}, WHY)


def test_erasing_tells_how_much_and_not_whose(archived: Actor) -> None:
    erased = erase_key(archived, TOPIC, "H-1", WHY)
    assert len(kept()) == 27

    entry = AuditEntry.objects.get(action="archive.erase")
    assert (entry.reason, entry.namespace) == (WHY, TOPIC)
    assert entry.after["rows"] == {str(kind): count for kind, count in erased.rows.items()}
    assert "H-1" not in json.dumps(entry.after)


def test_the_reason_does_not_name_whom_it_forgets(archived: Actor) -> None:
    with pytest.raises(BadInput) as refused:
        erase_key(archived, TOPIC, "H-1", "H-1 asked for it")
    assert refused.value.field == "reason"
    assert len(kept()) == 40


def test_under_a_hold_nothing_is_erased(archived: Actor) -> None:
    keep(archived, TOPIC, {"hold": "case 12-4711"}, WHY)
    with pytest.raises(UnderHold):
        erase_key(archived, TOPIC, "H-1", WHY)
    assert len(kept()) == 40


def test_the_endpoint_changes_what_is_named(governor: Actor, client: Client) -> None:
    client.force_login(User.objects.get(username=governor.name))
    address = f"/api/v1/archive/topics/{TOPIC}/rules"
    assert client.get(address).json() == {"keep_days": None, "hold": ""}

    def patch(body: dict[str, object]) -> tuple[int, dict[str, object]]:
        answer = client.patch(address, json.dumps(body), content_type="application/json")
        return answer.status_code, answer.json()

    assert patch({"keep_days": 30, "reason": WHY}) == (200, {"keep_days": 30, "hold": ""})
    assert patch({"hold": "case 1", "reason": WHY}) == (200, {"keep_days": 30, "hold": "case 1"})
    status, refused = patch({"keep_days": 0, "reason": WHY})
    assert (status, refused["field"]) == (422, "keep_days")
    assert client.get("/api/v1/archive/topics/never.was/rules").status_code == 404


def command(*words: str) -> str:
    out = StringIO()
    call_command("archive", *words, "--reason", WHY, stdout=out)
    return out.getvalue()


def test_the_command_keeps_holds_releases_and_erases(archived: Actor) -> None:
    assert command("keep", TOPIC, "--days", "30").startswith("30 days, the present one among them, of booking.created")
    assert command("hold", TOPIC, "--case", "case 12-4711").endswith("case 12-4711\n")
    assert "while it is held: case 12-4711" in command("keep", TOPIC, "--all")
    with pytest.raises(UnderHold):
        command("erase", TOPIC, "--key", "H-1")
    command("release", TOPIC)
    assert command("erase", TOPIC, "--key", "H-1").startswith("Rows taken out: 13 of messages")
    assert rules_of(TOPIC) == TopicRules()
    assert len(kept()) == 27


def test_tending_lets_old_days_go_and_makes_few_files_of_many(archived: Actor) -> None:
    for _ in range(FAN):
        publish(1)
        run_archive(wanted_topics([]), in_this_process)
    out = StringIO()
    call_command("archive", "tend", stdout=out)
    assert out.getvalue() == f"{FAN} files became 1.\n"
    assert len(lake().state().files_of(TOPIC)) == 2
    assert len(set(kept())) == len(kept()) == 40 + FAN
    out = StringIO()
    call_command("archive", "tend", stdout=out)
    assert out.getvalue() == "Nothing was to be done.\n"


def test_the_sheet_of_the_page_changes_what_was_typed_and_nothing_else(archived: Actor, client: Client) -> None:
    client.force_login(User.objects.get(username=archived.name))
    assert 'id="keep-1"' in client.get("/archive/").content.decode()
    keep(archived, TOPIC, {"hold": "case 12-4711"}, WHY)

    # Somebody who has seen no hold says how long it is kept.
    form = {"was_days": "", "keep_days": "30", "was_hold": "", "hold": "", "reason": WHY}
    assert client.post(f"/archive/{TOPIC}/keep/", form).status_code == 302
    assert rules_of(TOPIC) == TopicRules(30, "case 12-4711")
    html = client.get("/archive/").content.decode()
    assert 'title="case 12-4711">held<' in html
    assert "30 days" in html

    client.post(f"/archive/{TOPIC}/keep/", {**form, "was_days": "30", "keep_days": "", "was_hold": "case 12-4711"})
    assert rules_of(TOPIC) == TopicRules()


def test_the_sheet_refuses_by_the_field_and_keeps_what_holds(archived: Actor, client: Client) -> None:
    client.force_login(User.objects.get(username=archived.name))
    form = {"was_days": "", "keep_days": "a week", "was_hold": "", "hold": "", "reason": WHY}
    answer = client.post(f"/archive/{TOPIC}/keep/", form, headers={"hbus-form": "1"})
    assert answer.status_code == 422
    assert "whole number from 1 to 36,500 days" in answer.content.decode()
    assert rules_of(TOPIC) == TopicRules()


def test_what_an_audit_kept_of_erased_rows_goes_with_their_files(
    archived: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_audit([])
    (file,) = lake().state().files_of(TOPIC)
    side = path_of_side(lake().root, file)
    assert side.exists()
    erase_key(archived, TOPIC, "H-1", WHY)
    monkeypatch.setattr(lake(), "clock", ManualClock(SystemClock().now_ms() + round(GRACE_S + SWEEP_EVERY_S) * 1000))
    keep_up()
    assert not side.exists()
