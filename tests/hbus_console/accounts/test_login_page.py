from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.accounts.sessions import UNKNOWN_ACCOUNT
from hbus_console.accounts.throttle import FREE, LoginThrottle
from hbus_console.accounts.views import session
from hbus_console.audit.models import AuditEntry, RefusalCount
from hbus_console.audit.refusal_counts import MOST_A_DAY
from tests.hbus_console.accounts.conftest import PASSWORD

MakeUser = Callable[..., User]


@pytest.fixture
def anna(make_user: MakeUser) -> User:
    return make_user("anna", "viewer")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(session, "_throttle", LoginThrottle(clock))
    return clock


def sign_in(client: Client, name: str = "anna", password: str = PASSWORD, **more: str) -> object:
    return client.post("/login/", {"username": name, "password": password, **more})


def actions() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("seq").values_list("action", "target"))[1:]


def test_the_page_is_open_to_nobody_signed_in(client: Client, anna: User) -> None:
    page = client.get("/login/")
    assert page.status_code == 200
    assert "no-cache" in page["Cache-Control"]
    assert "There is no user yet" not in page.content.decode()


def test_on_an_empty_installation_the_page_says_what_to_do(client: Client, db: None) -> None:
    assert "There is no user yet" in client.get("/login/").content.decode()


def test_a_name_that_no_database_would_look_for_is_a_wrong_name(client: Client, anna: User) -> None:
    answer = sign_in(client, "anna\0")
    assert answer.status_code == 401  # type: ignore[attr-defined]
    assert "The name or the password is wrong" in answer.content.decode()  # type: ignore[attr-defined]


def test_signing_in_leads_back_and_is_audited(client: Client, anna: User) -> None:
    answer = sign_in(client, next="/access/")
    assert (answer.status_code, answer["Location"]) == (302, "/access/")
    assert client.get("/access/").status_code == 200
    entry = AuditEntry.objects.latest("seq")
    assert (entry.actor, entry.action, entry.address) == ("anna", "session.login", "127.0.0.1")


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"]
)
def test_signing_in_never_leads_elsewhere(client: Client, anna: User, target: str) -> None:
    assert sign_in(client, next=target)["Location"] == "/"


def test_the_session_key_changes_with_the_login_and_lasts_twelve_hours(client: Client, anna: User) -> None:
    client.get("/login/")
    store = client.session
    store["planted"] = True
    store.save()
    planted = store.session_key
    sign_in(client)
    assert client.session.session_key != planted
    assert client.session.get_expiry_age() == 12 * 3600


@pytest.mark.parametrize("name", ["anna", "nobody-here"])
def test_a_wrong_password_and_an_unknown_name_look_the_same(client: Client, anna: User, name: str) -> None:
    answer = sign_in(client, name, "wrong")
    assert answer.status_code == 401
    assert "The name or the password is wrong." in answer.content.decode()
    assert not client.session.get("_auth_user_id")


def test_failures_are_audited_without_what_was_typed(client: Client, anna: User) -> None:
    sign_in(client, "anna", "hunter2-in-the-wrong-field")
    sign_in(client, "hunter2-in-the-wrong-field", "x")
    assert actions() == [("session.login.refused", "anna"), ("session.login.refused", UNKNOWN_ACCOUNT)]
    assert "hunter2" not in str(list(AuditEntry.objects.values()))


def test_after_too_many_failures_even_the_right_password_must_wait(
    client: Client, anna: User, clock: ManualClock
) -> None:
    for _ in range(FREE):
        assert sign_in(client, password="wrong").status_code in (401, 429)
    answer = sign_in(client)
    assert answer.status_code == 429
    assert answer["Retry-After"] == "5"
    assert "Wait 5 seconds, then try again." in answer.content.decode()
    clock.advance(5)
    assert sign_in(client).status_code == 302


def test_waiting_tries_leave_no_audit_entries(client: Client, anna: User) -> None:
    for _ in range(FREE + 10):
        sign_in(client, password="wrong")
    assert len(actions()) == FREE


@pytest.mark.parametrize(("name", "counted"), [("anna", "anna"), ("typed-here", UNKNOWN_ACCOUNT)])
def test_whoever_guesses_all_day_does_not_fill_the_log(client: Client, anna: User, name: str, counted: str) -> None:
    sign_in(client, name, "wrong")
    RefusalCount.objects.update(entries=MOST_A_DAY)
    sign_in(client, name, "wrong")
    assert actions() == [("session.login.refused", counted)]
    row = RefusalCount.objects.get()
    assert (row.subject, row.more["session.login.refused"]["times"]) == (f"user:/{counted}", 1)


def test_a_deactivated_account_cannot_sign_in(client: Client, anna: User, make_user: MakeUser) -> None:
    make_user("root", "admin")
    services.deactivate_user(SYSTEM, anna)
    assert sign_in(client).status_code == 401


def test_deactivating_ends_sessions_and_reactivating_does_not_revive_them(client: Client, anna: User) -> None:
    sign_in(client)
    services.deactivate_user(SYSTEM, anna)
    assert client.get("/access/")["Location"].startswith("/login/")
    services.reactivate_user(SYSTEM, anna)
    assert client.get("/access/")["Location"].startswith("/login/")


def test_signing_out_ends_the_session_by_post_alone(client: Client, anna: User) -> None:
    sign_in(client)
    assert client.get("/logout/").status_code == 405
    assert client.get("/access/").status_code == 200
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/access/")["Location"].startswith("/login/")
    assert Session.objects.count() == 0
    assert actions()[-1] == ("session.logout", "anna")


def test_signing_out_twice_is_no_error_and_no_entry(client: Client, anna: User) -> None:
    assert client.post("/logout/").status_code == 302
    assert actions() == []


def test_who_is_signed_in_is_led_on(client: Client, anna: User) -> None:
    sign_in(client)
    assert client.get("/login/?next=/access/")["Location"] == "/access/"


def test_the_session_cookie_goes_with_nobody_elses_request(client: Client, anna: User) -> None:
    sign_in(client)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    assert (cookie["samesite"], cookie["httponly"]) == ("Lax", True)
