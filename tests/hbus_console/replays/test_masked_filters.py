"""A filter on a masked field: who reads it, what is told of it, and that trying it is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from engine.bus import message as envelope
from engine.bus.conformance.running import FactRecorder
from engine.bus.producer import Receipt
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.operations import guarded, services
from hbus_console.operations.models import Operation
from hbus_console.replays import masked
from hbus_console.replays import spec as specs
from hbus_console.replays.kind import survey
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, fact_log
from tests.hbus_console.replays.conftest import TOPIC, MakeUser, replay
from tests.hbus_console.words import says

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

FILTER = 'payload.guest == "g7" and payload.n < 20'
TOLD = "payload.guest … and payload.n < 20"
SPEC = {"topic": TOPIC, "filter": FILTER, "into_group": "availability"}


@pytest.fixture
def gova(published: list[Receipt], make_user: MakeUser) -> User:
    return make_user("governor", name="gova")


@pytest.fixture
def governor(gova: User) -> Actor:
    return actor_of(gova)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def questions() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action="payload.reveal").order_by("seq"))


def addresses(operation: Operation) -> list[str]:
    return [
        f"/api/v1/operations/{operation.pk}",
        "/api/v1/operations",
        f"/operations/{operation.pk}/",
        "/operations/",
    ]


@pytest.mark.parametrize("before", [["guest"], []])
def test_what_a_replay_asked_about_a_masked_field_is_shown_to_who_may_reveal_it(
    gova: User, make_user: MakeUser, before: list[str]
) -> None:
    """Whether it was masked at the start, or is since."""
    Topic.objects.filter(name=TOPIC).update(masked_fields=before)
    operation = replay(actor_of(gova), **{name: SPEC[name] for name in ("filter", "into_group")})
    assert (operation.done, operation.spec["filter"]) == (1, FILTER)
    # Once it was masked, it stays hidden; else it is by the rules now.
    Topic.objects.filter(name=TOPIC).update(masked_fields=[] if before else ["guest"])
    viewer, own = client_of(make_user("viewer", name="vera")), client_of(gova)
    for address in addresses(operation):
        said = viewer.get(address).content.decode()
        assert not says(said, "g7"), address
    assert viewer.get(f"/api/v1/operations/{operation.pk}").json()["spec"]["filter"] == TOLD
    assert TOLD.partition("<")[0] in viewer.get(f"/operations/{operation.pk}/").content.decode()
    assert own.get(f"/api/v1/operations/{operation.pk}").json()["spec"]["filter"] == FILTER


def test_which_messages_fitted_is_told_to_who_may_reveal_what_was_asked_about(gova: User, make_user: MakeUser) -> None:
    operation = replay(actor_of(gova), filter=FILTER, into_group="availability")
    (item,) = operation.items.all()
    viewer, own = client_of(make_user("viewer", name="vera")), client_of(gova)
    address = f"/api/v1/operations/{operation.pk}"
    assert viewer.get(f"{address}/items").status_code == 403
    page = viewer.get(f"/operations/{operation.pk}/").content.decode()
    assert item.name not in page
    assert "is shown to who may reveal them" in page
    assert viewer.get(address).json()["done"] == 1
    assert [each["message_id"] for each in own.get(f"{address}/items").json()["results"]] == [item.name]
    other = replay(actor_of(gova), filter="payload.n == 8", into_group="availability")
    assert len(viewer.get(f"/api/v1/operations/{other.pk}/items").json()["results"]) == 1


def test_the_audit_log_has_a_mark_of_what_it_does_not_tell(gova: User) -> None:
    operation = replay(actor_of(gova), filter=FILTER, into_group="availability")
    entry = AuditEntry.objects.get(seq=operation.audit_seq)
    assert entry.after["spec"]["filter"] == TOLD
    assert "g7" not in json.dumps(list(AuditEntry.objects.values_list("before", "after", "reason")))
    assert entry.after[guarded.MARK] == guarded.mark_of(operation)
    page = f"/operations/{operation.pk}/"
    assert "has the mark of exactly this" in client_of(gova).get(page).content.decode()
    Operation.objects.update(spec={**operation.spec, "filter": FILTER.replace("g7", "g8")})
    assert "this is not what was asked for" in client_of(gova).get(page).content.decode()


def test_an_entry_from_before_a_field_was_masked_does_not_tell_it_either(gova: User, make_user: MakeUser) -> None:
    Topic.objects.filter(name=TOPIC).update(masked_fields=["n"])
    operation = replay(actor_of(gova), filter=FILTER, into_group="availability")
    assert (
        AuditEntry.objects.get(seq=operation.audit_seq).after["spec"]["filter"]
        == 'payload.guest == "g7" and payload.n …'
    )
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"])
    operator = client_of(make_user("operator", name="olga"))
    for address in (f"/api/v1/audit/entries/{operation.audit_seq}", f"/audit/{operation.audit_seq}/"):
        said = operator.get(address).content.decode()
        assert "payload.guest … and payload.n …" in said
        assert not says(said, "g7")


def test_a_filter_that_asks_about_nothing_masked_is_told_and_not_recorded(governor: Actor) -> None:
    operation = replay(governor, filter="payload.n < 20", into_group="availability")
    entry = AuditEntry.objects.get(seq=operation.audit_seq)
    assert (entry.after["spec"]["filter"], guarded.MARK in entry.after) == ("payload.n < 20", False)
    assert questions() == []


def ways(client: Client, text: str) -> list[Any]:
    return [
        client.post(
            "/api/v1/operations/plan",
            json.dumps({"kind": "replay", "spec": {**SPEC, "filter": text}}),
            content_type="application/json",
        ),
        client.get("/operations/plan/replay/", {**SPEC, "filter": text}),
        client.get(f"/replays/{TOPIC}/test/", {"filter": text}),
    ]


@pytest.mark.parametrize("way", range(3))
def test_each_question_about_a_masked_field_is_recorded_before_it_is_answered(gova: User, way: int) -> None:
    for number, text in enumerate(['payload.guest == "nobody"', 'payload.guest startswith "g"'], 1):
        assert ways(client_of(gova), text)[way].status_code == 200
        entry = questions()[-1]
        assert len({each.seq for each in questions()}) >= number
        assert (entry.actor, entry.target, entry.reason) == ("gova", TOPIC, masked.WHY)
        assert (entry.after["fields"], entry.after["filter"]) == (["guest"], "payload.guest …")


@pytest.mark.parametrize(
    ("asked", "since", "told"),
    [
        ('payload.guest == "g7" and payload.room == "DBL …"', ["room"], "payload.guest … and payload.room …"),
        ('payload.guest == "g7" and payload.room == "DBL …"', ["n"], 'payload.guest … and payload.room == "DBL …"'),
        ("payload.guest == payload.room and payload.n == 7", ["guest", "n"], "payload.guest … and payload.n …"),
        ("not payload.guest and payload.n in [7, 8]", ["*"], "not payload … and payload …"),
    ],
)
def test_a_question_from_before_a_field_was_masked_does_not_tell_it_when_it_is_read(
    gova: User, asked: str, since: list[str], told: str
) -> None:
    client = client_of(gova)
    assert ways(client, asked)[2].status_code == 200
    (entry,) = questions()
    Topic.objects.filter(name=TOPIC).update(masked_fields=since)
    assert client.get(f"/api/v1/audit/entries/{entry.seq}").json()["after"]["filter"] == told
    for value in ("DBL", "payload.n"):
        assert client.get("/api/v1/audit/entries", {"q": value, "action": "payload.reveal"}).json()["results"] == []


@pytest.mark.parametrize("filter_", ["payload.guest … …", "what? …", 7])
def test_a_question_that_cannot_be_read_is_hidden_whole(gova: User, filter_: Any) -> None:
    entry = AuditEntry(action="payload.reveal", namespace=TOPIC, at=timezone.now(), after={"filter": filter_})
    (sides,) = masked.questions([entry])
    assert sides.after["filter"] == ("masked · internal" if isinstance(filter_, str) else filter_)


def test_the_same_question_of_one_person_is_recorded_once_in_a_while(governor: Actor, make_user: MakeUser) -> None:
    clock = ManualClock(SystemClock().now_ms())

    def ask(who: Actor, text: str = FILTER) -> int:
        survey(who, specs.read(who, {**SPEC, "filter": text}, clock.now_ms()), clock=clock)
        return len(questions())

    assert [ask(governor), ask(governor)] == [1, 1]
    assert ask(governor, FILTER.replace("g7", "g8")) == 2
    assert ask(actor_of(make_user("governor", name="greta"))) == 3
    clock.advance(masked.ONE_QUESTION.total_seconds() + 1)
    assert ask(governor) == 4


def test_a_start_without_a_dry_run_is_recorded_even_where_nothing_fits(governor: Actor) -> None:
    with pytest.raises(BadInput):
        services.start(governor, "replay", {**SPEC, "filter": 'payload.guest == "nobody"'}, reason="try")
    assert [entry.after["fields"] for entry in questions()] == [["guest"]]


def test_a_schema_that_judges_what_is_masked_is_a_question_as_well(governor: Actor, editor: Actor) -> None:
    into = Topic.objects.get(name="booking.again")
    body = {"type": "object", "properties": {"guest": {"const": "g7"}}}
    SchemaVersion.objects.create(topic=into, version=1, body=body, created_by="gova")
    spec = {"topic": TOPIC, "into_topic": into.name}
    services.dry_run(editor, "replay", spec)
    assert questions() == [], "nobody is told what the schema says"
    for _ in range(2):
        services.dry_run(governor, "replay", spec)
    (entry,) = questions()
    assert (entry.after["fields"], entry.after["schema"]) == (["guest"], "booking.again, version 1")
    assert entry.reason == masked.WHY_COMPARED
    SchemaVersion.objects.create(topic=into, version=2, body=body, created_by="gova")
    services.dry_run(governor, "replay", spec)
    assert len(questions()) == 2


@pytest.mark.parametrize(("text", "said"), [(FILTER, 0), ("payload.n == 8", 1)])
def test_no_evidence_of_a_message_says_that_it_fitted_what_is_masked(
    governor: Actor, monkeypatch: pytest.MonkeyPatch, text: str, said: int
) -> None:
    seen = FactRecorder()
    monkeypatch.setattr(fact_log, "emitter", lambda: seen)
    operation = replay(governor, filter=text, into_group="availability")
    told = [fact.detail for fact in seen.seen if fact.kind == "replayed"]
    assert (len(told), sum(f"operation {operation.pk}" in detail for detail in told)) == (1, said)


@pytest.mark.parametrize("role", ["editor", "governor"])
def test_no_filter_finds_a_payload_with_two_members_of_one_name_for_who_may_not_reveal(
    published: list[Receipt], make_user: MakeUser, role: str
) -> None:
    body = b'{"specversion":"1.0","id":"d","source":"/s","type":"t","data":{"hotel":"A","hotel":"B"}}'
    bus.transport().publish(TOPIC, [Outgoing("d", body)])
    who = actor_of(make_user(role, name="someone"))
    for hotel, found in (("B", role == "governor"), ("A", False), ("Resort", True)):
        spec = {"topic": TOPIC, "filter": f'payload.hotel == "{hotel}"', "into_group": "availability"}
        chosen = specs.Chosen(who, specs.read(who, spec, SystemClock().now_ms()))
        entries = bus.admin().browse(TOPIC, limit=100).entries
        assert any(chosen(envelope.decode(entry.body)) for entry in entries) is found, hotel
