from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of, actor_of_token
from hbus_console.accounts.models import ApiToken, User
from hbus_console.accounts.throttle import FREE, LoginThrottle
from hbus_console.accounts.views import session
from hbus_console.audit.models import AuditEntry
from tests.hbus_console.accounts.conftest import PASSWORD, later

NEW = "five grey herons 7"


@pytest.fixture
def anna(make_user: Callable[..., User], client: Client, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setattr(session, "_throttle", LoginThrottle(ManualClock()))
    user = make_user("anna")
    client.login(username="anna", password=PASSWORD)
    return user


def change(client: Client, current: str = PASSWORD, new: str = NEW, again: str = NEW) -> object:
    return client.post("/password/", {"current": current, "new": new, "again": again})


def test_changing_keeps_this_session_and_ends_the_others(client: Client, anna: User) -> None:
    other = Client()
    other.login(username="anna", password=PASSWORD)
    assert change(client)["Location"] == "/access/"
    assert client.get("/access/").status_code == 200
    assert other.get("/access/").status_code == 302
    entry = AuditEntry.objects.latest("seq")
    assert (entry.actor, entry.action) == ("anna", "session.password.change")
    assert NEW not in str(entry.__dict__)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"current": "wrong"}, "The current password is wrong."),
        ({"again": "other"}, "The two new passwords differ."),
        ({"new": "short", "again": "short"}, "too short"),
        ({"new": "password1234", "again": "password1234"}, "too common"),
        ({"new": PASSWORD, "again": PASSWORD}, "The new password is the old one."),
        ({"new": "x" * 1001, "again": "x" * 1001}, "The password is too long."),
    ],
)
def test_what_does_not_do_is_said_at_its_field(client: Client, anna: User, given: dict[str, str], says: str) -> None:
    answer = change(client, **given)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert says in page
    assert 'aria-invalid="true"' in page
    assert User.objects.get(pk=anna.pk).check_password(PASSWORD)


def test_guessing_the_current_password_is_slowed_down(client: Client, anna: User) -> None:
    for _ in range(FREE):
        change(client, current="wrong")
    assert "Too many wrong passwords." in change(client).content.decode()


def test_nobody_signed_in_is_led_to_the_login(client: Client, db: None) -> None:
    assert client.get("/password/")["Location"] == "/login/?next=%2Fpassword%2F"


def test_who_must_change_the_password_can_do_nothing_else(client: Client, anna: User) -> None:
    password = services.reset_password(SYSTEM, anna)
    client.post("/login/", {"username": "anna", "password": password})
    assert client.get("/access/")["Location"] == "/password/"
    assert "Somebody else knows" in client.get("/password/").content.decode()
    assert change(client, current=password)["Location"] == "/"
    assert client.get("/access/").status_code == 200


def test_a_token_cannot_change_its_makers_password(anna: User, rf: object) -> None:
    token = services.create_token(actor_of(anna), "ci", Role.VIEWER, "*", later()).token
    request = rf.post("/")  # type: ignore[attr-defined]
    request.user = anna
    with pytest.raises(Forbidden):
        services.change_own_password(actor_of_token(token), request, PASSWORD, NEW, LoginThrottle(ManualClock()))


@pytest.mark.parametrize("address", ["/api/v1/me", "/api/v1/tokens"])
def test_who_must_change_the_password_reads_nothing_beside_the_pages(client: Client, anna: User, address: str) -> None:
    assert client.get(address).status_code == 200
    password = services.reset_password(SYSTEM, anna)
    client.post("/login/", {"username": "anna", "password": password})
    assert client.get(address).status_code == 403
    change(client, current=password)
    assert client.get(address).status_code == 200


def test_a_temporary_password_makes_no_token(client: Client, anna: User) -> None:
    password = services.reset_password(SYSTEM, anna)
    client.post("/login/", {"username": "anna", "password": password})
    body = {"name": "mine", "role": "viewer", "scope": "*", "expires_at": later().isoformat()}
    answer = client.post("/api/v1/tokens", body, "application/json")
    assert (answer.status_code, answer.json()["title"]) == (403, "Not allowed")
    assert "password" in answer.json()["remedy"]
    assert not ApiToken.objects.exists()


def test_a_reset_ends_every_token_of_the_account(client: Client, anna: User) -> None:
    raw = services.create_token(actor_of(anna), "ci", Role.VIEWER, "*", later()).raw
    bearer = {"Authorization": f"Bearer {raw}"}
    assert Client().get("/api/v1/me", headers=bearer).status_code == 200
    password = services.reset_password(SYSTEM, anna, "lost it")
    assert Client().get("/api/v1/me", headers=bearer).status_code == 401
    client.post("/login/", {"username": "anna", "password": password})
    change(client, current=password)
    assert Client().get("/api/v1/me", headers=bearer).status_code == 401
    entry = AuditEntry.objects.get(action="user.password.reset")
    assert entry.after is not None
    assert entry.after["keys_revoked"] == 1
