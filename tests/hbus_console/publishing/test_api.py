"""Publishing over HTTP, on the real store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.schemas import services as schemas
from hbus_console.topics import services as topics
from hbus_console.wiring import bus
from tests.hbus_console.api.conftest import TOPIC, Caller

PATH = f"topics/{TOPIC}/messages"
pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def stored() -> list[dict[str, Any]]:
    return [json.loads(entry.body) for entry in bus.admin().browse(TOPIC).entries]


def test_a_message_is_stored_and_its_receipt_says_where(program: Callable[..., Caller]) -> None:
    answer = program()("post", PATH, {"data": {"rate": 1.5}, "type": "booking.created", "key": "booking/1"})
    assert answer.status_code == 201, answer.content
    receipt = answer.json()
    (message,) = stored()
    assert (message["id"], message["data"], message["partitionkey"]) == (receipt["id"], {"rate": 1.5}, "booking/1")
    assert receipt["status"] == "stored"
    assert receipt["position"]


def test_a_cloudevent_keeps_its_identity_and_is_stored_once(program: Callable[..., Caller]) -> None:
    call = program()
    event = {"specversion": "1.0", "id": "e1", "source": "/pms", "type": "t", "tenant": "x", "data": 1}
    first = call("post", PATH, event, content_type="application/cloudevents+json")
    again = call("post", PATH, event, content_type="application/cloudevents+json")
    assert (first.status_code, again.status_code) == (201, 200), (first.content, again.content)
    assert again.json()["status"] == "duplicate"
    (message,) = stored()
    assert (message["id"], message["source"], message["tenant"]) == ("e1", "/pms", "x")


def test_bytes_travel_as_base64(program: Callable[..., Caller]) -> None:
    answer = program()("post", PATH, {"data_base64": "/wA=", "content_type": "image/png"})
    assert answer.status_code == 201, answer.content
    (message,) = stored()
    assert (message["data_base64"], message["datacontenttype"]) == ("/wA=", "image/png")


def test_a_delayed_message_is_accepted_and_not_in_the_topic_yet(program: Callable[..., Caller]) -> None:
    answer = program()("post", PATH, {"data": 1, "delay_s": 3600})
    assert answer.status_code == 202, answer.content
    assert answer.json()["due"]
    assert stored() == []
    assert bus.delays().count() == 1


def test_the_correlation_of_the_request_travels_with_the_message(program: Callable[..., Caller]) -> None:
    answer = program()("post", PATH, {"data": 1}, **{"X-Correlation-ID": "order-77"})
    assert answer.headers["X-Correlation-ID"] == "order-77"
    assert stored()[0]["correlationid"] == "order-77"


@pytest.mark.parametrize(
    "offered", ["c" * 129, "two words", "a\tb", 'x"}{"event":"forged', "%0d%0aforged", "ünïcode", "", "\u202eforged"]
)
def test_a_correlation_that_could_be_taken_for_something_else_is_not_taken_over(
    program: Callable[..., Caller], offered: str
) -> None:
    """It stands in logs, in the audit log and in the envelope: short, and nothing but letters, digits and marks."""
    answer = program()("post", PATH, {"data": 1}, **{"X-Correlation-ID": offered})
    assert answer.status_code == 201
    own = answer.headers["X-Request-ID"]
    assert answer.headers["X-Correlation-ID"] == own == stored()[0]["correlationid"]


@pytest.mark.parametrize("given", ["c" * 129, "line\nforged", "a\x00b", "a\x7fb", "a\u0085b"])
def test_a_correlation_that_is_no_text_of_one_line_is_refused_at_its_field(
    program: Callable[..., Caller], given: str
) -> None:
    call = program()
    refused = call("post", PATH, {"data": 1, "correlation_id": given})
    assert (refused.status_code, refused.json()["field"]) == (422, "correlation_id")
    event = {"specversion": "1.0", "id": "e1", "source": "/pms", "type": "t", "correlationid": given, "data": 1}
    refused = call("post", PATH, event, content_type="application/cloudevents+json")
    assert (refused.status_code, refused.json()["field"]) == (422, "correlationid")
    assert stored() == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{not json", 422, ""),
        ({"data": 1, "headers": {"tenant": 7}}, 422, "headers.tenant"),
        ({"data": 1, "headers": {"Not-Allowed": "x"}}, 422, "headers.Not-Allowed"),
        ({"data": 1, "delay_s": 731 * 86_400}, 422, "delay_s"),
        ({"data": 1, "delay_s": 5, "due": "2027-01-01T00:00:00Z"}, 422, "due"),
        ({"data": "x" * 1_100_000}, 422, "data"),
        ({}, 422, "data"),
    ],
)
def test_bad_input_is_refused_whole_and_leaves_nothing(
    program: Callable[..., Caller], body: Any, status: int, field: str
) -> None:
    answer = program()("post", PATH, body)
    problem = answer.json()
    assert (answer.status_code, problem.get("field", "")) == (status, field), problem
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert problem["remedy"]
    assert stored() == []
    assert bus.delays().count() == 0


def test_an_unknown_topic_is_not_found(program: Callable[..., Caller]) -> None:
    answer = program()("post", "topics/no.such/messages", {"data": 1})
    assert (answer.status_code, answer.json()["field"]) == (404, "topic")


def test_an_ownerless_topic_refuses(program: Callable[..., Caller]) -> None:
    call = program()
    topics.change_topic(SYSTEM, TOPIC, {"owner": ""}, "team dissolved")
    answer = call("post", PATH, {"data": 1})
    assert answer.status_code == 422
    assert "owner" in answer.json()["detail"]
    assert stored() == []


def test_what_breaks_the_schema_names_the_payloads_field(program: Callable[..., Caller]) -> None:
    call = program()
    schemas.add_schema(SYSTEM, TOPIC, {"type": "object", "properties": {"nights": {"type": "integer"}}})
    answer = call("post", PATH, {"data": {"nights": "two"}})
    assert answer.status_code == 422
    assert "nights" in answer.json()["field"]
    assert stored() == []


def test_a_repeated_message_key_with_another_body_is_a_conflict(program: Callable[..., Caller]) -> None:
    call = program()
    assert call("post", PATH, {"data": 1, "idempotency_key": "k1"}).status_code == 201
    assert call("post", PATH, {"data": 1, "idempotency_key": "k1"}).json()["status"] == "duplicate"
    answer = call("post", PATH, {"data": 2, "idempotency_key": "k1"})
    assert (answer.status_code, answer.json()["field"]) == (409, "idempotency_key")
    assert len(stored()) == 1


def test_a_batch_answers_per_message(program: Callable[..., Caller]) -> None:
    messages = [{"data": 1}, {"data": 2, "nope": 1}, {"data": 3, "headers": {"X": "y"}}, {"data": 4, "delay_s": 60}]
    answer = program()("post", f"{PATH}/batch", {"messages": messages})
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert [row["status"] for row in body["results"]] == ["stored", "refused", "refused", "delayed"]
    assert body["counts"] == {"stored": 1, "refused": 2, "delayed": 1}
    assert body["results"][1]["problem"]["field"] == "nope"
    assert body["results"][2]["problem"]["remedy"]
    assert [message["data"] for message in stored()] == [1]


@pytest.mark.parametrize(("role", "scope"), [(Role.VIEWER, "*"), (Role.OPERATOR, "stay.*")])
def test_who_may_not_publish_there_is_refused(program: Callable[..., Caller], role: Role, scope: str) -> None:
    answer = program(role, scope)("post", PATH, {"data": 1})
    assert answer.status_code == 403
    assert answer.json()["remedy"]
    assert stored() == []


def test_a_request_larger_than_the_limit_is_told_so(program: Callable[..., Caller], settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = program()("post", PATH, {"data": "x" * 2000}, **{"Idempotency-Key": "k"})
    assert answer.status_code == 413, answer.content


def test_without_a_told_length_a_body_is_read_up_to_the_limit(program: Callable[..., Caller], settings: Any) -> None:
    call = program()
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    for path in (PATH, f"{PATH}/batch", "topics"):
        assert call("post", path, {"data": "x" * 2000}).status_code == 413, path


def test_who_may_not_publish_is_told_so_before_the_body_is_read(program: Callable[..., Caller]) -> None:
    call = program(Role.VIEWER)
    assert call("post", PATH, b"{not json").status_code == 403
    assert call("post", f"{PATH}/batch", b"{not json").status_code == 403


@pytest.mark.parametrize("path", [PATH, f"{PATH}/batch", "topics", "tokens"])
def test_a_body_nested_without_end_is_bad_input(program: Callable[..., Caller], path: str) -> None:
    call = program(Role.ADMIN)
    for body in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"data":' * 100_000 + b"1" + b"}" * 100_000):
        answer = call("post", path, body)
        assert answer.status_code == 422, (path, answer.content[:300])


MEMBERS = {
    "specversion": "1.0",
    "id": "e1",
    "source": "/pms",
    "type": "booking.made",
    "time": "2026-11-21T08:00:00.000Z",
    "subject": "room 7",
    "datacontenttype": "application/vnd.pms+json",
    "dataschema": "urn:pms:booking:1",
    "partitionkey": "b/1",
    "sequence": "7",
    "expirytime": "2031-01-01T00:00:00.000Z",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "a=1",
    "correlationid": "c1",
    "causationid": "b1",
    "dataclassification": "internal",
    "tenant": "lisbon",
    "data": {"rate": 1.5},
}
EVENT = {name: MEMBERS[name] for name in ("specversion", "id", "source", "type", "data")}
BY_ONE = (PATH, "application/cloudevents+json")
IN_A_BATCH = (f"{PATH}/batch", "application/cloudevents-batch+json")


def _refusal(call: Caller, mode: tuple[str, str], event: dict[str, Any]) -> dict[str, Any]:
    """The problem of an event in that content mode."""
    path, content_type = mode
    if mode is BY_ONE:
        answer = call("post", path, event, content_type=content_type)
        assert answer.status_code == 422, answer.content
        problem: dict[str, Any] = answer.json()
        return problem
    (row,) = call("post", path, [event], content_type=content_type).json()["results"]
    assert row["status"] == "refused"
    found: dict[str, Any] = row["problem"]
    return found


@pytest.mark.parametrize("mode", [BY_ONE, IN_A_BATCH], ids=["structured", "batch"])
def test_a_cloudevent_without_its_version_is_refused(program: Callable[..., Caller], mode: tuple[str, str]) -> None:
    event = {name: value for name, value in EVENT.items() if name != "specversion"}
    assert _refusal(program(), mode, event)["field"] == "specversion"
    assert stored() == []


@pytest.mark.parametrize("mode", [BY_ONE, IN_A_BATCH], ids=["structured", "batch"])
def test_every_member_of_a_cloudevent_is_kept(program: Callable[..., Caller], mode: tuple[str, str]) -> None:
    path, content_type = mode
    answer = program()("post", path, MEMBERS if mode is BY_ONE else [MEMBERS], content_type=content_type)
    assert answer.status_code in (200, 201), answer.content
    (message,) = stored()
    assert message == MEMBERS


@pytest.mark.parametrize("mode", [BY_ONE, IN_A_BATCH], ids=["structured", "batch"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hbusreplay", "redrive"),
        ("hbustarget", "billing"),
        ("hbusedited", "true"),
        ("dataclassification", "personal"),
        ("expirytime", "2020-01-01T00:00:00Z"),
        ("hbusdue", "2099-01-01T00:00:00Z"),
        ("traceparent", "00-nonsense"),
        ("id", ""),
    ],
)
def test_a_member_that_cannot_be_kept_is_refused_by_its_name(
    program: Callable[..., Caller], mode: tuple[str, str], name: str, value: str
) -> None:
    problem = _refusal(program(), mode, {**EVENT, name: value})
    assert (problem["field"], bool(problem["remedy"])) == (name, True), problem
    assert stored() == []


def test_a_topic_with_a_schema_takes_no_event_of_another(program: Callable[..., Caller]) -> None:
    call = program()
    uri = "urn:hbus:schema:booking.created:1"
    schemas.add_schema(SYSTEM, TOPIC, {"type": "object"})
    event = {**EVENT, "data": {}}
    assert _refusal(call, BY_ONE, {**event, "dataschema": "urn:pms:booking:1"})["field"] == "dataschema"
    own = call("post", PATH, {**event, "dataschema": uri}, content_type="application/cloudevents+json")
    assert own.status_code == 201, own.content


@pytest.mark.parametrize("path", [PATH, f"{PATH}/batch"], ids=["one", "batch"])
def test_attributes_in_headers_are_refused_by_their_name(program: Callable[..., Caller], path: str) -> None:
    answer = program()("post", path, {"data": 1}, **{"ce-id": "e1", "ce-specversion": "1.0"})
    assert (answer.status_code, answer.json()["field"]) == (422, "ce-id")
    assert "application/cloudevents+json" in answer.json()["remedy"]
    assert stored() == []
