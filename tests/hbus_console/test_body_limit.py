"""The limit of request bodies, at the door of the real application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest
from django.conf import settings as configured
from django.test import Client
from pytest_django import Settings

from hbus_console.access.acts import Role
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.callers import why_not_at_length
from hbus_console.accounts.models import User
from hbus_console.asgi import application
from hbus_console.body_limit import App, BodyLimit
from tests.hbus_console.accounts.conftest import later, make_user

__all__ = ["make_user"]

LIMIT = 1_000


@pytest.fixture(autouse=True)
def _limit(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = settings.BODY_OF_ANYBODY = LIMIT


def send(chunks: Iterator[bytes], to: App = application, **headers: str) -> tuple[int, bytes]:
    """The status and the body that the application answers to a body of ``chunks``."""
    start, body = answered(chunks, to, **headers)
    return start["status"], body


def answered(chunks: Iterator[bytes], to: App, **headers: str) -> tuple[dict[str, Any], bytes]:
    """The beginning of such an answer, and its body."""
    sent: list[dict[str, Any]] = []
    ended = False

    async def receive() -> dict[str, Any]:
        nonlocal ended
        if ended:
            # As a server whose client waits for the answer.
            await asyncio.Event().wait()
        chunk = next(chunks, b"")
        ended = not chunk
        return {"type": "http.request", "body": chunk, "more_body": not ended}

    async def answer(message: Any) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/topics/booking.created/messages",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(to(scope, receive, answer))
    return sent[0], b"".join(part.get("body", b"") for part in sent)


def test_a_length_beyond_the_limit_is_refused_unread() -> None:
    chunks = iter([b"x" * 10])
    status, body = send(chunks, content_length=str(LIMIT + 1))
    assert (status, json.loads(body)["status"]) == (413, 413)
    assert next(chunks) == b"x" * 10


def test_a_body_of_no_told_length_is_read_up_to_the_limit() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 100
            yield b"x" * 100

    assert send(endless())[0] == 413
    assert taken == LIMIT + 100


@pytest.mark.django_db
def test_a_body_within_the_limit_goes_on_to_the_application() -> None:
    assert send(iter([b"x" * LIMIT]), content_length=str(LIMIT), host="localhost")[0] == 401


#: What the console says on each of its answers.
EVERYWHERE = (
    "cache-control",
    "content-security-policy",
    "permissions-policy",
    "x-content-type-options",
    "x-frame-options",
    "referrer-policy",
    "cross-origin-opener-policy",
)


@pytest.mark.django_db
@pytest.mark.parametrize("status", [HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN])
def test_a_refusal_at_the_door_has_the_headers_of_any_other(settings: Settings, status: HTTPStatus) -> None:
    async def refusal(_: dict[str, Any]) -> HTTPStatus:
        return status

    most = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: LIMIT}.get(status, 2 * LIMIT)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = most
    start, body = answered(iter([b"x"]), BodyLimit(application, refusal), content_length=str(LIMIT + 1))
    told = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    usual, _ = answered(iter([b"x"]), application, content_length="1", host="localhost")
    others = {name.decode().lower(): value.decode() for name, value in usual["headers"]}
    assert (start["status"], usual["status"]) == (status, 401)
    assert {name: told.get(name) for name in EVERYWHERE} == {name: others[name] for name in EVERYWHERE}
    assert (told["content-type"], told["connection"]) == ("application/problem+json", "close")
    assert ("www-authenticate" in told) is (status is HTTPStatus.UNAUTHORIZED)
    assert json.loads(body)["instance"] == f"urn:hbus:request:{told['x-request-id']}"


def test_what_is_said_on_every_answer_is_said_by_the_console_too() -> None:
    places = [configured.MIDDLEWARE.index(name) for name in configured.HEADER_MIDDLEWARE]
    assert places == sorted(places)


def _endless(taken: list[int]) -> Iterator[bytes]:
    while True:
        taken.append(100)
        yield b"x" * 100


@pytest.mark.django_db
def test_a_long_body_of_nobody_is_refused_unread(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * LIMIT
    chunks = iter([b"x" * 10])
    status, body = send(chunks, content_length=str(LIMIT + 1))
    assert (status, json.loads(body)["title"]) == (401, "Sign in first")
    assert next(chunks) == b"x" * 10
    taken: list[int] = []
    assert send(_endless(taken))[0] == 401
    assert sum(taken) == LIMIT + 100


@pytest.mark.parametrize(("refusal", "status", "read"), [(None, 413, 9 * LIMIT), (HTTPStatus.FORBIDDEN, 403, LIMIT)])
def test_whoever_sends_a_long_body_is_asked_for_once(
    settings: Settings, refusal: HTTPStatus | None, status: int, read: int
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 9 * LIMIT
    asked: list[str] = []

    async def refuse(scope: dict[str, Any]) -> HTTPStatus | None:
        asked.append(scope["path"])
        return refusal

    async def reader(scope: Any, receive: Any, send: Any) -> None:
        while True:
            await receive()

    taken: list[int] = []
    assert send(_endless(taken), BodyLimit(reader, refuse))[0] == status
    assert (sum(taken), len(asked)) == (read + 100, 1)


@pytest.mark.django_db
def test_who_may_more_than_look_sends_at_length(make_user: Callable[..., User]) -> None:
    def asked(**headers: str) -> HTTPStatus | None:
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        return why_not_at_length({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": pairs})

    def bearer(person: User, role: Role) -> str:
        return f"Bearer {services.create_token(actor_of(person), f'as {role}', role, '*', later()).raw}"

    olga, vera = make_user("olga", "operator"), make_user("vera", "viewer")
    assert asked() == asked(authorization="Bearer hbus_made_up") == HTTPStatus.UNAUTHORIZED
    assert asked(authorization=bearer(olga, Role.OPERATOR)) is None
    assert asked(authorization=bearer(olga, Role.VIEWER)) == HTTPStatus.FORBIDDEN
    assert asked(authorization=bearer(vera, Role.VIEWER)) == HTTPStatus.FORBIDDEN
    client = Client()
    client.force_login(olga)
    session = client.cookies[configured.SESSION_COOKIE_NAME].value
    assert asked(cookie=f"{configured.SESSION_COOKIE_NAME}={session}") is None
    assert asked(cookie=f"{configured.SESSION_COOKIE_NAME}=made-up") == HTTPStatus.UNAUTHORIZED
    User.objects.filter(pk=olga.pk).update(must_change_password=True)
    assert asked(cookie=f"{configured.SESSION_COOKIE_NAME}={session}") == HTTPStatus.FORBIDDEN
