"""Idempotency keys: one effect, one answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F
from django.test import Client, RequestFactory
from drf_spectacular.generators import SchemaGenerator

from engine.core.errors import Conflict
from hbus_console.access.acts import Role
from hbus_console.access.context import RequestContext, bound
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.accounts.models import User
from hbus_console.accounts.services import create_user
from hbus_console.api import idempotency
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit.models import AuditEntry
from hbus_console.operations.models import Operation
from hbus_console.publishing import api as publishing
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
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


def test_a_repeat_is_told_when_the_first_request_counts_as_dead(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    IdempotencyRecord.objects.update(status=0, created_at=datetime.now(UTC) - timedelta(seconds=40))
    answer = call("post", PATH, {"data": 1}, **KEY)
    assert answer.status_code == 409
    again_s = int(answer.headers["Retry-After"])
    assert 1 <= again_s <= 20
    assert f"{again_s} s" in answer.json()["remedy"]


def test_a_key_whose_first_request_died_can_be_used_after_a_while(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    IdempotencyRecord.objects.update(
        status=0, created_at=F("created_at") - idempotency.ABANDONED_AFTER - timedelta(seconds=1)
    )
    assert call("post", PATH, {"data": 1}, **KEY).json()["status"] == "duplicate"
    assert stored() == 1


def test_an_open_key_still_belongs_to_its_request(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    IdempotencyRecord.objects.update(status=idempotency.OPEN, response=b"req-1")
    answer = call("post", PATH, {"data": 2}, **KEY)
    assert (answer.status_code, answer.json()["field"]) == (409, "Idempotency-Key")
    assert stored() == 1


def leave_open(status: int) -> None:
    """As it is after a 5xx, or after the process died."""
    record = IdempotencyRecord.objects.get()
    record.status, record.response = status, AuditEntry.objects.latest("seq").request_id.encode()
    record.created_at -= idempotency.ABANDONED_AFTER + timedelta(seconds=1)
    record.save()


@pytest.mark.parametrize("status", [0, idempotency.OPEN], ids=["died", "failed"])
def test_a_change_that_was_done_without_an_answer_is_not_done_again(governor: tuple[Caller, User], status: int) -> None:
    call, _ = governor
    spec = {"kind": "replay", "spec": {"topic": TOPIC, "into_topic": "booking.new"}, "reason": "again"}
    call("post", "topics", NEW)
    call("post", PATH, {"data": 1})
    first = call("post", "operations", spec, **KEY)
    assert first.status_code < 300, first.content
    leave_open(status)

    again = call("post", "operations", spec, **KEY)

    assert (again.status_code, again.json()["field"]) == (409, "Idempotency-Key")
    assert AuditEntry.objects.latest("seq").request_id in again.json()["detail"]
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("status", [0, idempotency.OPEN], ids=["died", "failed"])
def test_a_change_that_left_nothing_is_done_by_its_repeat(governor: tuple[Caller, User], status: int) -> None:
    call, _ = governor
    call("post", "topics", NEW, **KEY)
    Topic.objects.filter(name="booking.new").delete()
    leave_open(status)
    IdempotencyRecord.objects.update(response=b"req-that-left-nothing")
    assert call("post", "topics", NEW, **KEY).status_code == 201


def test_an_unforeseen_error_leaves_the_key_open(
    governor: tuple[Caller, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, _ = governor

    def break_after(*given: Any, **more: Any) -> Any:
        create(*given, **more)
        raise LookupError("the answer cannot be written")

    create = topics.create_topic
    monkeypatch.setattr(topics, "create_topic", break_after)
    with pytest.raises(LookupError):
        call("post", "topics", NEW, **KEY)
    monkeypatch.undo()
    assert call("post", "topics", NEW, **KEY).status_code == 409
    assert "audit log" in call("post", "topics", NEW, **KEY).json()["detail"]


@pytest.mark.parametrize("late", [LookupError("late"), Conflict("late"), Forbidden("late")], ids=["5xx", "409", "403"])
def test_a_first_try_that_ends_late_leaves_the_answer_of_its_repeat(
    governor: tuple[Caller, User], monkeypatch: pytest.MonkeyPatch, late: Exception
) -> None:
    call, _ = governor
    repeated: list[Any] = []

    def be_slow(*_: Any, **__: Any) -> Any:
        monkeypatch.undo()
        IdempotencyRecord.objects.update(created_at=F("created_at") - idempotency.ABANDONED_AFTER * 2)
        repeated.append(call("post", "topics", NEW, **KEY))
        raise late

    monkeypatch.setattr(topics, "create_topic", be_slow)
    with contextlib.suppress(LookupError):
        call("post", "topics", NEW, **KEY)
    third = call("post", "topics", NEW, **KEY)
    assert (third.status_code, third.content) == (201, repeated[0].content)
    assert third.headers["Idempotent-Replayed"] == "true"


def test_a_first_try_that_ends_late_leaves_the_key_to_a_repeat_at_work(rf: RequestFactory) -> None:
    who = Actor("anna")
    asked = rf.post("/api/v1/topics", b"{}", "application/json", headers=KEY)
    tries: list[IdempotencyRecord] = []
    for request_id in ("req-1", "req-2"):
        IdempotencyRecord.objects.update(created_at=F("created_at") - idempotency.ABANDONED_AFTER * 2)
        with bound(RequestContext(request_id)):
            claimed = idempotency.claim(asked, who)
        assert claimed
        tries.append(claimed)
    first, second = tries
    idempotency.leave_open(first)
    idempotency.free(first)
    idempotency.answer(first, 201, b"first", "text/plain")
    found = IdempotencyRecord.objects.get()
    assert (found.status, bytes(found.response)) == (0, b"req-2")
    idempotency.answer(second, 201, b"second", "text/plain")
    found.refresh_from_db()
    assert (found.status, bytes(found.response)) == (201, b"second")


def test_a_key_that_the_caller_may_not_use_is_not_kept(program: Callable[..., Caller]) -> None:
    call = program(Role.VIEWER)
    assert call("post", PATH, {"data": 1}, **KEY).status_code == 403
    assert IdempotencyRecord.objects.count() == 0


@pytest.fixture
def governor(program: Callable[..., Caller]) -> tuple[Caller, User]:
    """A governor of bookings, and their account."""
    return program(Role.GOVERNOR, "booking.*"), User.objects.get(username="governor-9")


NEW = {"name": "booking.new", "owner": "Reservations"}


@pytest.mark.parametrize(
    ("left", "again"),
    [
        ([("governor", "booking.*")], 201),
        ([("admin", "*")], 201),
        ([("governor", "booking.*"), ("viewer", "alien.*")], 201),
        ([("editor", "booking.*")], 403),
        ([("governor", "booking.new.*")], 403),
        ([("viewer", "alien.*")], 403),
        ([], 403),
    ],
)
def test_a_kept_answer_is_for_who_may_still_do_as_much(
    governor: tuple[Caller, User], left: list[tuple[str, str]], again: int
) -> None:
    call, person = governor
    first = call("post", "topics", NEW, **KEY)
    assert first.status_code == 201, first.content
    person.grants.all().delete()
    for role, scope in left:
        person.grants.create(role=role, scope=scope)
    repeat = call("post", "topics", NEW, **KEY)
    assert repeat.status_code == again, repeat.content
    assert ("booking.new" in repeat.content.decode()) is (again == 201)


def test_it_is_given_again_once_the_rights_are_back(governor: tuple[Caller, User]) -> None:
    call, person = governor
    call("post", "topics", NEW, **KEY)
    person.grants.update(role="viewer")
    assert call("post", "topics", NEW, **KEY).status_code == 403
    person.grants.update(role="governor")
    assert call("post", "topics", NEW, **KEY).status_code == 201


def test_no_answer_that_shows_payload_is_kept_past_a_mask(program: Callable[..., Caller]) -> None:
    call = program(Role.GOVERNOR)
    call("post", "topics", NEW)
    call("post", PATH, {"data": {"guest": "Ida Clear"}})
    spec = {"kind": "replay", "spec": {"topic": TOPIC, "into_topic": "booking.new"}}
    first = call("post", "operations/plan", spec, **KEY)
    assert "Ida Clear" in first.content.decode(), first.content
    Topic.objects.filter(name=TOPIC).update(masked_fields=["guest"], classification="personal")
    again = call("post", "operations/plan", spec, **KEY)
    assert "Ida Clear" not in again.content.decode()
    assert "Idempotent-Replayed" not in again.headers
    assert not IdempotencyRecord.objects.exists()


def test_every_change_whose_answer_may_show_payload_is_answered_anew() -> None:
    generator = SchemaGenerator(api_version="v1")  # type: ignore[no-untyped-call]
    document = generator.get_schema(public=True)  # type: ignore[no-untyped-call]
    views = {(path, method.lower()): callback.cls for path, _, method, callback in generator.endpoints}
    showing = {
        (path, method): views[path, method]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "get" and SHOWS_PAYLOAD & _names(operation["responses"])
    }
    assert len(showing) == 6
    assert [at for at, view in showing.items() if not view.answers_anew] == []


#: Words under which answers show what a topic may mask.
SHOWS_PAYLOAD = {"payload", "envelope", "samples", "data", "error"}


def _names(shape: Any) -> set[str]:
    """The names of the properties anywhere in a part of the document."""
    if isinstance(shape, list):
        return {name for each in shape for name in _names(each)}
    if not isinstance(shape, dict):
        return set()
    own = set(shape["properties"]) if isinstance(shape.get("properties"), dict) else set()
    return own | {name for each in shape.values() for name in _names(each)}


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


def grow_older(by: timedelta) -> None:
    """So much later, a repeat of the open key is the first that comes."""
    record = IdempotencyRecord.objects.get()
    record.status, record.created_at = idempotency.OPEN, record.created_at - by
    first = datetime.fromisoformat(said) if (said := record.content_type.partition("first tried ")[2]) else None
    record.content_type = f"first tried {(first - by).isoformat()}" if first else ""
    record.save()


def test_an_effect_is_asked_about_its_repeat_for_a_day_from_the_first_try(program: Callable[..., Caller]) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    grow_older(timedelta(hours=23))
    assert call("post", PATH, {"data": 1}, **KEY).json()["status"] == "duplicate"
    # Not answered either
    IdempotencyRecord.objects.update(
        status=idempotency.OPEN,
        content_type=f"first tried {(datetime.now(UTC) - timedelta(hours=23)).isoformat()}",
    )
    grow_older(timedelta(hours=7))
    # The store has forgotten what the first try left there.
    keys = store.client().keys(f"{settings.HBUS_PREFIX}:*:idem:*")
    assert len(keys) == 1
    store.client().delete(*keys)
    late = call("post", PATH, {"data": 1}, **KEY)
    assert (late.status_code, late.json()["field"]) == (409, "Idempotency-Key")
    assert stored() == 1


def test_a_repeat_keeps_when_the_first_was_tried(
    program: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = program()
    call("post", PATH, {"data": 1}, **KEY)
    grow_older(timedelta(hours=23))
    first = IdempotencyRecord.objects.get().created_at

    def break_down(*_: Any, **__: Any) -> Any:
        raise LookupError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "publish", break_down)
        for _ in range(2):
            with pytest.raises(LookupError):
                call("post", PATH, {"data": 1}, **KEY)
    record = IdempotencyRecord.objects.get()
    assert (idempotency.is_open(record), record.content_type) == (True, f"first tried {first.isoformat()}")
    assert record.created_at > first + timedelta(hours=22)


def test_the_store_knows_a_key_for_longer_than_its_repeat_may_be_claimed(program: Callable[..., Caller]) -> None:
    Topic.objects.update(idempotency_window_s=60)
    program()("post", PATH, {"data": 1}, **KEY)
    (key,) = store.client().keys(f"{settings.HBUS_PREFIX}:*:idem:*")
    assert store.client().ttl(key) > idempotency.KEEP.total_seconds()


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
