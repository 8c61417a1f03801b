"""Idempotency keys: one effect, one answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts.models import User
from hbus_console.accounts.services import create_user
from hbus_console.api import idempotency
from hbus_console.api.models import IdempotencyRecord
from hbus_console.wiring import bus
from tests.hbus_console.api.conftest import TOPIC, Caller

PATH = f"topics/{TOPIC}/messages"
KEY = {"Idempotency-Key": "key-1"}
pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def stored() -> int:
    return bus.admin().depth(TOPIC).messages


def test_a_repeat_gets_the_first_answer_and_has_no_effect(program: Callable[..., Caller]) -> None:
    call = program()
    first = call("post", PATH, {"data": 1}, **KEY)
    again = call("post", PATH, {"data": 1}, **KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert stored() == 1


def test_the_same_key_with_another_body_is_refused(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    answer = call("post", PATH, {"data": 2}, **KEY)
    assert (answer.status_code, answer.json()["field"]) == (409, "Idempotency-Key")
    assert stored() == 1


def test_a_refusal_is_remembered_too(program: Callable[..., Caller]) -> None:
    call = program()
    first = call("post", PATH, {}, **KEY)
    again = call("post", PATH, {}, **KEY)
    assert (first.status_code, again.content) == (422, first.content)


def test_another_route_or_another_caller_has_keys_of_its_own(program: Callable[..., Caller]) -> None:
    one, other = program(), program(scope="booking.*")
    assert one("post", PATH, {"data": 1}, **KEY).status_code == 201
    assert one("post", f"{PATH}/batch", {"messages": [{"data": 1}]}, **KEY).status_code == 200
    assert other("post", PATH, {"data": 1}, **KEY).status_code == 201
    assert stored() == 3


def test_while_the_first_request_is_at_work_a_repeat_is_told_to_wait(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    IdempotencyRecord.objects.update(status=0)
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 409
    assert stored() == 1


def test_a_key_whose_first_request_died_can_be_used_after_a_while(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    IdempotencyRecord.objects.update(
        status=0, created_at=F("created_at") - idempotency.ABANDONED_AFTER - timedelta(seconds=1)
    )
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 201
    assert stored() == 2


def test_a_key_that_the_caller_may_not_use_is_not_kept(program: Callable[..., Caller]) -> None:
    from hbus_console.access.acts import Role

    call = program(Role.VIEWER)
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 403
    assert IdempotencyRecord.objects.count() == 0


@pytest.mark.parametrize("key", ["with space", "x" * 129, "ümlaut"])
def test_a_malformed_key_is_refused(program: Callable[..., Caller], key: str) -> None:
    answer = program()("post", PATH, {"data": 1}, **{"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")
    assert stored() == 0


def test_keys_are_forgotten_after_a_day(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    assert idempotency.expire() == 0
    IdempotencyRecord.objects.update(created_at=F("created_at") - idempotency.KEEP - timedelta(seconds=1))
    assert idempotency.expire() == 1


def test_a_session_has_keys_too(installation: None) -> None:
    call = _in_a_session()
    first, again = call(b'{"data": 1}'), call(b'{"data": 1}')
    assert (first.status_code, again.status_code) == (201, 201), (first.content, again.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert stored() == 1


@pytest.mark.parametrize("media_type", ["multipart/form-data; boundary=b", "application/x-www-form-urlencoded"])
def test_a_form_with_a_key_is_no_media_type_of_ours(installation: None, media_type: str) -> None:
    answer = _in_a_session()(b"--b\r\n\r\n--b--\r\n", media_type)
    assert answer.status_code == 415, answer.content
    assert answer.json()["title"] == "Unsupported Media Type"


def _in_a_session() -> Callable[..., Any]:
    person = create_user(SYSTEM, "anna", [ScopedRole(Role.OPERATOR, "*")]).user
    User.objects.update(must_change_password=False)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(pk=person.pk))
    secret = "a" * 32
    client.cookies[settings.CSRF_COOKIE_NAME] = secret
    headers = {"X-CSRFToken": secret, **KEY}

    def call(body: bytes, media_type: str = "application/json") -> Any:
        return client.post(f"/api/v1/{PATH}", body, media_type, headers=headers)

    return call
