from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import pytest
from django.conf import settings
from django.core import signing
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts import services
from hbus_console.accounts.devices import MOST_ACCOUNTS
from hbus_console.accounts.models import User
from hbus_console.accounts.throttle import EACH_S, FREE, FREE_PER_ADDRESS, LoginThrottle
from hbus_console.accounts.views import session
from tests.hbus_console.accounts.conftest import PASSWORD

MakeUser = Callable[..., User]
WAITS = HTTPStatus.TOO_MANY_REQUESTS


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(session, "_throttle", LoginThrottle(clock))
    return clock


@pytest.fixture
def gov(make_user: MakeUser) -> User:
    make_user("root", "admin")
    return make_user("gov", "governor")


def sign_in(client: Client, name: str = "gov", password: str = PASSWORD) -> int:
    client.post("/logout/")
    return client.post("/login/", {"username": name, "password": password}).status_code


def guess(clock: ManualClock) -> None:
    """Somebody of the same address guesses names, and the password of one of them, until both have to wait."""
    throttle = LoginThrottle(clock)
    for _ in range(FREE):
        throttle.begin("gov", "127.0.0.1")
    for number in range(FREE_PER_ADDRESS - FREE):
        assert throttle.begin(f"unknown{number}", "127.0.0.1") == 0
    assert sign_in(Client(), "another", "wrong") == WAITS


def test_who_guesses_locks_nobody_out_of_the_browser_they_signed_in_before(
    client: Client, gov: User, clock: ManualClock
) -> None:
    assert sign_in(client) == HTTPStatus.FOUND
    guess(clock)
    assert sign_in(client) == HTTPStatus.FOUND
    assert sign_in(client, "root") == WAITS
    assert sign_in(Client()) == WAITS
    clock.advance(EACH_S)
    assert sign_in(client, "root") == HTTPStatus.FOUND
    assert sign_in(client, "root") == HTTPStatus.FOUND


def test_a_browser_lets_nobody_guess_more_than_an_address_does(client: Client, gov: User) -> None:
    sign_in(client)
    assert [sign_in(client, password="wrong") for _ in range(FREE - 1)] == [HTTPStatus.UNAUTHORIZED] * (FREE - 1)
    assert [sign_in(client, password="wrong") for _ in range(2)] == [WAITS] * 2
    assert sign_in(client) == WAITS


def test_a_browser_that_knew_an_old_password_is_not_known(client: Client, gov: User, clock: ManualClock) -> None:
    sign_in(client)
    password = services.reset_password(SYSTEM, gov)
    guess(clock)
    assert sign_in(client, password=password) == WAITS


def test_the_browser_is_known_by_the_new_password(client: Client, gov: User, clock: ManualClock) -> None:
    sign_in(client)
    new = "five grey herons 7"
    assert client.post("/password/", {"current": PASSWORD, "new": new, "again": new}).status_code == HTTPStatus.FOUND
    guess(clock)
    assert sign_in(client, password=new) == HTTPStatus.FOUND


def test_nobody_makes_such_a_cookie(client: Client, gov: User, clock: ManualClock) -> None:
    guess(clock)
    for made_up in ("", "x", signing.dumps(["device", ["mark"]], salt="another")):
        client.cookies[settings.DEVICE_COOKIE_NAME] = made_up
        assert sign_in(client) == WAITS


def test_the_cookie_is_for_the_server_alone_and_names_nobody(client: Client, gov: User) -> None:
    sign_in(client)
    cookie = client.cookies[settings.DEVICE_COOKIE_NAME]
    assert (cookie["samesite"], cookie["httponly"]) == ("Lax", True)
    assert "gov" not in str(signing.loads(cookie.value, salt="hbus_console.accounts.devices"))


def test_a_browser_is_known_to_a_few_accounts(client: Client, make_user: MakeUser) -> None:
    for number in range(MOST_ACCOUNTS + 2):
        make_user(f"user{number}")
        assert sign_in(client, f"user{number}") == HTTPStatus.FOUND
    _, marks = signing.loads(client.cookies[settings.DEVICE_COOKIE_NAME].value, salt="hbus_console.accounts.devices")
    assert len(set(marks)) == MOST_ACCOUNTS


def test_a_failed_try_makes_no_cookie(client: Client, gov: User) -> None:
    sign_in(client, password="wrong")
    assert settings.DEVICE_COOKIE_NAME not in client.cookies
