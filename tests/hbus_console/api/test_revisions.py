"""Two who change the same thing: the second learns of the first, and overwrites nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hbus_console.access.acts import Role
from tests.hbus_console.api.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

SUBSCRIPTION = {"group": "billing", "owner": "Reservations"}
CHANNEL = {"name": "night", "kind": "webhook", "url": "https://x.example/in"}
RULE = {"name": "silence", "kind": "silent_topic", "threshold": 5.0}


@pytest.fixture
def call(program: Any) -> Caller:
    made: Caller = program(Role.ADMIN)
    return made


@pytest.fixture(params=["topic", "subscription", "channel", "rule"])
def thing(request: pytest.FixtureRequest, call: Caller) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The address of a thing, and two changes of it."""
    if request.param == "topic":
        return "topics/booking.created", {"description": "one"}, {"description": "two"}
    if request.param == "subscription":
        assert call("post", "topics/booking.created/subscriptions", SUBSCRIPTION).status_code == 201
        return "topics/booking.created/subscriptions/billing", {"concurrency": 2}, {"concurrency": 3}
    path, body = ("alert-channels", CHANNEL) if request.param == "channel" else ("alert-rules", RULE)
    made = call("post", path, body)
    assert made.status_code == 201, made.content
    return f"{path}/{made.json()['id']}", {"name": "one"}, {"name": "two"}


def test_the_second_of_two_editors_is_told(call: Caller, thing: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    address, one, two = thing
    seen = call("get", address)
    tag = seen.headers["ETag"]
    assert tag == f'"{seen.json()["revision"]}"'

    first = call("patch", address, one, **{"If-Match": tag})
    assert first.status_code == 200, first.content
    assert first.headers["ETag"] != tag

    second = call("patch", address, two, **{"If-Match": tag})
    problem = second.json()
    assert (second.status_code, problem["status"]) == (412, 412)
    assert (problem["type"], problem["title"]) == ("urn:hbus:problem:changed-meanwhile", "Changed meanwhile")
    now = call("get", address)
    assert now.headers["ETag"] == first.headers["ETag"]
    assert {name: now.json()[name] for name in one} == one
    assert call("patch", address, two, **{"If-Match": now.headers["ETag"]}).status_code == 200


def test_a_revision_in_the_body_holds_as_before(call: Caller) -> None:
    revision = call("get", "topics/booking.created").json()["revision"]
    stale = call("patch", "topics/booking.created", {"description": "x", "revision": revision + 1})
    assert (stale.status_code, stale.json()["title"]) == (409, "Changed meanwhile")


@pytest.mark.parametrize("tag", ['W/"0"', "0", '"0", "1"', '"a3f"'])
def test_a_tag_that_no_answer_gave_is_refused(call: Caller, tag: str) -> None:
    answer = call("patch", "topics/booking.created", {"description": "x"}, **{"If-Match": tag})
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")


def test_a_star_is_any_revision_and_two_that_differ_are_refused(call: Caller) -> None:
    address, change = "topics/booking.created", {"description": "x"}
    assert call("patch", address, change, **{"If-Match": "*"}).status_code == 200
    differ = call("patch", address, {**change, "revision": 7}, **{"If-Match": '"8"'})
    assert (differ.status_code, differ.json()["field"]) == (422, "If-Match")


@pytest.mark.parametrize(
    ("method", "address", "body"),
    [
        ("post", "topics/booking.created/pause", {"reason": "why"}),
        ("delete", "topics/booking.created", {"typed_name": "booking.created", "reason": "why"}),
    ],
)
def test_where_it_is_not_heeded_it_is_refused(call: Caller, method: str, address: str, body: dict[str, Any]) -> None:
    answer = call(method, address, body, **{"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")
    assert call("get", "topics/booking.created").json()["paused"] is False
