"""Redriving one letter with another payload."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.test import Client

from engine.bus.conformance.running import FactRecorder
from engine.bus.message import NO_DATA, decode
from engine.core.errors import BadInput
from hbus_console.access.permissions import Forbidden
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import editing, services
from hbus_console.deadletters.models import DeadLetter
from hbus_console.outbox.models import OutboxMessage
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

PAYLOAD = {"room": "DBL-SEA", "guests": [{"name": "Ana", "age": 40}, {"name": "Rui", "age": 41}], "nights": 2}
HIDDEN = "masked · personal"


@pytest.fixture
def letter(make_letter: MakeLetter, facts: FactRecorder) -> DeadLetter:
    Topic.objects.update(masked_fields=["guests.name"], classification="personal")
    return make_letter(message={"data": msgspec.Raw(msgspec.json.encode(PAYLOAD))})


def shown(letter: DeadLetter) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(editing.draft(letter).text)
    return found


def copy() -> Any:
    return decode(bytes(OutboxMessage.objects.get().body))


def test_the_copy_is_edited_and_says_so(letter: DeadLetter, facts: FactRecorder) -> None:
    decision = services.redrive_edited(person("editor"), letter.pk, {**shown(letter), "room": "DBL"}, "wrong code")

    assert decision.done
    made = copy()
    assert made.json() == {**PAYLOAD, "room": "DBL"}
    assert (made.causationid, made.hbusreplay, made.hbustarget) == (letter.message_id, "redrive", "partner-sync")
    assert made.extensions == {"tenant": "lisbon", "hbusedited": "true"}
    assert made.id == decision.letter.redriven_as != letter.message_id


def test_the_difference_is_audited_masked(letter: DeadLetter) -> None:
    services.redrive_edited(person("editor"), letter.pk, {**shown(letter), "room": "DBL"}, "wrong code")
    entry = AuditEntry.objects.get(action="dead_letter.edit")
    assert (entry.before["payload"]["room"], entry.after["payload"]["room"]) == ("DBL-SEA", "DBL")
    assert entry.after["payload"]["guests"] == [{"name": HIDDEN, "age": 40}, {"name": HIDDEN, "age": 41}]
    assert "Ana" not in json.dumps([entry.before, entry.after])


def test_a_second_click_does_nothing(letter: DeadLetter) -> None:
    editor = person("editor")
    assert services.redrive_edited(editor, letter.pk, shown(letter), "one").done
    again = services.redrive_edited(editor, letter.pk, {**shown(letter), "room": "X"}, "two")
    assert not again.done
    assert "had redriven it before" in again.sentence
    assert OutboxMessage.objects.count() == 1


ANA, RUI = {"name": HIDDEN, "age": 40}, {"name": HIDDEN, "age": 41}


def masked_changes() -> list[dict[str, Any]]:
    return [
        {**PAYLOAD, "guests": [{"name": "Eve", "age": 40}, RUI]},
        {**PAYLOAD, "guests": [{"age": 40}, {"name": "Rui", "age": 41}]},
        # Guessed right: a refusal of wrong guesses alone would tell.
        PAYLOAD,
        {"room": "DBL"},
        ["no object"],
    ]


@pytest.mark.parametrize("payload", masked_changes())
def test_what_is_masked_is_changed_by_those_only_who_may_reveal_it(letter: DeadLetter, payload: Any) -> None:
    with pytest.raises(Forbidden):
        services.redrive_edited(person("editor"), letter.pk, payload, "why")
    assert not OutboxMessage.objects.exists()
    assert DeadLetter.objects.get().state == "dead"
    assert services.redrive_edited(person("governor"), letter.pk, payload, "why").done


@pytest.mark.parametrize(
    "guests",
    # A list that is shorter would give one guest the name of another.
    [[RUI], [ANA, RUI, ANA], {"name": HIDDEN}, [{"age": 40}, RUI, {"name": "Eve", "age": 1}]],
)
def test_a_stand_in_whose_value_nobody_can_tell_is_published_by_nobody(letter: DeadLetter, guests: Any) -> None:
    payload = {**PAYLOAD, "guests": guests}
    with pytest.raises(Forbidden):
        services.redrive_edited(person("editor"), letter.pk, payload, "why")
    with pytest.raises(BadInput) as refused:
        services.redrive_edited(person("governor"), letter.pk, payload, "why")
    assert (refused.value.field, "guests.name" in refused.value.what) == ("payload", True)
    assert not OutboxMessage.objects.exists()
    assert DeadLetter.objects.get().state == "dead"


def test_what_a_governor_leaves_masked_beside_a_change_is_as_it_was(letter: DeadLetter) -> None:
    guests = [{"name": "Eve", "age": 40}, RUI]
    services.redrive_edited(person("governor"), letter.pk, {**PAYLOAD, "guests": guests}, "misspelt")
    assert copy().json()["guests"] == [{"name": "Eve", "age": 40}, {"name": "Rui", "age": 41}]


def test_a_governor_may_change_one_masked_value(letter: DeadLetter) -> None:
    payload = {**PAYLOAD, "guests": [{"name": "Eve", "age": 40}, {"name": "Rui", "age": 41}]}
    services.redrive_edited(person("governor"), letter.pk, payload, "misspelt")
    assert copy().json() == payload


def test_the_schema_is_asked(letter: DeadLetter) -> None:
    body = {"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}}}
    SchemaVersion.objects.create(topic=Topic.objects.get(), version=1, body=body, created_by="x")
    with pytest.raises(BadInput) as refused:
        services.redrive_edited(person("editor"), letter.pk, {**shown(letter), "nights": 0}, "why")
    assert refused.value.field == "payload.nights"
    assert not OutboxMessage.objects.exists()


def test_operators_may_not_and_reasons_are_needed(letter: DeadLetter) -> None:
    with pytest.raises(Forbidden):
        services.redrive_edited(person("operator"), letter.pk, shown(letter), "why")
    with pytest.raises(BadInput) as refused:
        services.redrive_edited(person("editor"), letter.pk, shown(letter), " ")
    assert refused.value.field == "reason"


def test_bytes_cannot_be_edited(make_letter: MakeLetter, facts: FactRecorder) -> None:
    letter = make_letter(message={"data": NO_DATA, "data_base64": b"\x00"})
    with pytest.raises(BadInput, match="Only a payload of JSON"):
        services.redrive_edited(person("editor"), letter.pk, {}, "why")


@pytest.fixture
def page(letter: DeadLetter) -> Client:
    user = User.objects.create_user("edith", password="x")
    user.grants.create(role="editor", scope="*")
    client = Client()
    client.force_login(user)
    return client


def test_the_page_shows_the_payload_masked_and_redrives(page: Client, letter: DeadLetter) -> None:
    address = f"/dead-letters/{letter.pk}/edit"
    form = page.get(address)
    assert "Ana" not in form.content.decode()
    assert "guests.name" in form.content.decode()

    wrong = page.post(address, {"payload": "{", "reason": "why"})
    assert wrong.status_code == 422
    assert "not JSON" in wrong.content.decode()

    edited = json.dumps({**json.loads(form.context["text"]), "room": "DBL"})
    done = page.post(address, {"payload": edited, "reason": "wrong code"})
    assert done.status_code == 302
    assert copy().json()["room"] == "DBL"


def test_what_no_page_can_show_is_published_as_it_was(make_letter: MakeLetter, page: Client) -> None:
    payload = {"note": "left \u202eright\u2066 \x85\x7f", "n": 1}
    letter = make_letter(message={"data": msgspec.Raw(msgspec.json.encode(payload)), "id": "other"})
    address = f"/dead-letters/{letter.pk}/edit"
    form = page.get(address)
    assert "\ufffd" not in form.content.decode()
    refused = page.post(address, {"payload": form.context["text"].replace("1", "2"), "reason": ""})
    assert "\ufffd" not in refused.content.decode()
    page.post(address, {"payload": refused.context["text"], "reason": "wrong number"})
    assert copy().json() == {**payload, "n": 2}


def test_the_endpoint_redrives(page: Client, letter: DeadLetter) -> None:
    body = {"payload": {**shown(letter), "room": "DBL"}, "reason": "wrong code"}
    answer = page.post(f"/api/v1/dead-letters/{letter.pk}/edit", json.dumps(body), content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert answer.json()["done"] is True
    assert copy().json() == {**PAYLOAD, "room": "DBL"}


def answer(letter: DeadLetter, who: str, payload: Any) -> tuple[str, ...]:
    try:
        return (str(services.redrive_edited(person(who), letter.pk, payload, "why").done),)
    except BadInput as refused:
        return refused.field or "", refused.what, refused.remedy


def asking(name: Any) -> list[dict[str, Any]]:
    """Schemas whose answer depends on the guests' names."""
    guests = {"properties": {"guests": {"items": {"properties": {"name": name}}}}}
    return [
        guests,
        {"if": guests, "then": {"properties": {"nights": {"maximum": 1}}}},
        {"anyOf": [guests, {"properties": {"nights": {"const": 7}}}]},
        {"oneOf": [guests, {"required": ["room"]}]},
        {"not": guests},
        {"properties": {"guests": {"contains": {"properties": {"name": name}}}}},
        {"allOf": [guests], "properties": {"room": True, "nights": True}, "unevaluatedProperties": False},
    ]


@pytest.mark.parametrize("who", ["editor", "governor"])
@pytest.mark.parametrize("body", [*asking({"pattern": "^[AR]"}), *asking({"pattern": "^[^AR]"})])
def test_no_schema_tells_what_stands_behind_a_stand_in(
    make_letter: MakeLetter, facts: FactRecorder, body: Any, who: str
) -> None:
    Topic.objects.update(masked_fields=["guests.name"], classification="personal")
    SchemaVersion.objects.create(topic=Topic.objects.get(), version=1, body=body, created_by="x")
    answers = set()
    for names in (("Ana", "Rui"), ("Eve", "Zoe")):
        guests = [{"name": name, "age": 40} for name in names]
        data = msgspec.Raw(msgspec.json.encode({**PAYLOAD, "guests": guests}))
        letter = make_letter(message={"id": f"m-{names[0]}", "data": data})
        answers.add(answer(letter, who, shown(letter)))
    assert len(answers) == 1


MASKED_CODE = {"type": "string", "pattern": "^[A-Z][a-z]+$"}


@pytest.mark.parametrize(
    "body",
    [
        # The stand-in is no such name; what is stored is.
        {"properties": {"guests": {"items": {"properties": {"name": MASKED_CODE}}}}},
        {"properties": {"guests": {"uniqueItems": True}}},
        {
            "oneOf": [
                {"properties": {"guests": {"items": {"properties": {"name": MASKED_CODE}}}}},
                {"required": ["company"]},
            ]
        },
    ],
)
def test_a_rule_about_what_is_masked_is_in_nobodys_way(letter: DeadLetter, body: Any) -> None:
    SchemaVersion.objects.create(topic=Topic.objects.get(), version=1, body=body, created_by="x")
    payload = shown(letter)
    for guest in payload["guests"]:
        guest["age"] = 40
    assert answer(letter, "editor", payload) == ("True",)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nights": 0}, "payload.nights"),
        ({"guests": [{**ANA, "age": -1}, RUI]}, "payload.guests[0].age"),
        ({"guests": [{**ANA, "nickname": "x"}, RUI]}, "payload.guests[0].nickname"),
        ({"kind": "group"}, "payload"),
    ],
)
def test_beside_what_is_masked_the_schema_is_asked(letter: DeadLetter, change: dict[str, Any], field: str) -> None:
    guest = {
        "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"minimum": 0}},
        "additionalProperties": False,
    }
    body = {
        "properties": {"nights": {"minimum": 1}, "guests": {"items": guest}},
        "anyOf": [{"properties": {"kind": {"const": kind}, "guests": {"items": guest}}} for kind in ("single", "pair")],
    }
    SchemaVersion.objects.create(topic=Topic.objects.get(), version=1, body=body, created_by="x")
    told = answer(letter, "editor", {**shown(letter), **change})
    assert told[0] == field
    assert "masked value" in told[2]


def test_a_name_that_a_governor_writes_out_is_held_to_the_schema(letter: DeadLetter) -> None:
    body = {"properties": {"guests": {"items": {"properties": {"name": {"maxLength": 3}}}}}}
    SchemaVersion.objects.create(topic=Topic.objects.get(), version=1, body=body, created_by="x")
    payload = {**PAYLOAD, "guests": [ANA, {"name": "Rodrigo", "age": 41}]}
    assert answer(letter, "governor", payload)[0] == "payload.guests[1].name"
    assert answer(letter, "governor", {**PAYLOAD, "guests": [ANA, {"name": "Rod", "age": 41}]}) == ("True",)
