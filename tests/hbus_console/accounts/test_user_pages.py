from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry

MakeUser = Callable[..., User]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture(autouse=True)
def _admin(admin: User, client: Client) -> None:
    client.force_login(admin)


def roles(user: User) -> dict[str, str]:
    return dict(user.grants.values_list("scope", "role"))


def test_adding_a_user_shows_the_password_once(client: Client) -> None:
    asked = {"username": "anna", "email": "", "role": ["viewer", "editor", ""], "scope": ["*", "booking.*", ""]}
    answer = client.post("/access/users/new/", asked)
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    user = User.objects.get(username="anna")
    assert roles(user) == {"*": "viewer", "booking.*": "editor"}
    password = re.search(r"<code>([^<]+)</code>", answer.content.decode())
    assert password is not None
    assert user.check_password(password[1])
    assert password[1] not in client.get("/access/users/anna/").content.decode()


def test_a_role_is_taken_away_only_from_whom_has_it(client: Client, make_user: MakeUser) -> None:
    make_user("anna", "viewer")
    assert "take away" in client.get("/access/users/anna/").content.decode()
    assert "take away" not in client.get("/access/users/new/").content.decode()


def test_a_refused_user_keeps_what_was_typed(client: Client) -> None:
    answer = client.post("/access/users/new/", {"username": "Anna", "role": ["editor"], "scope": ["book ing"]})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "cannot be a user" in page
    assert 'value="Anna"' in page
    assert 'value="book ing"' in page
    assert User.objects.count() == 1


def test_roles_are_replaced_by_what_the_form_says(client: Client, make_user: MakeUser) -> None:
    anna = make_user("anna", "viewer")
    asked = {"act": "roles", "role": ["", "operator"], "scope": ["*", "booking.*"], "reason": "on call"}
    assert client.post("/access/users/anna/", asked)["Location"] == "/access/users/anna/"
    assert roles(anna) == {"booking.*": "operator"}
    assert AuditEntry.objects.latest("seq").reason == "on call"


def test_a_refused_change_of_roles_is_said_and_changes_nothing(client: Client, make_user: MakeUser) -> None:
    anna = make_user("anna", "viewer")
    asked = {"act": "roles", "role": ["viewer", "editor"], "scope": ["a.*", "a.*"], "reason": "x"}
    answer = client.post("/access/users/anna/", asked)
    assert answer.status_code == 422
    assert "Two roles for a.*" in answer.content.decode()
    assert roles(anna) == {"*": "viewer"}


def test_an_admin_cannot_lock_themselves_out(client: Client, admin: User) -> None:
    asked = {"act": "roles", "role": ["viewer"], "scope": ["*"], "reason": "x"}
    answer = client.post("/access/users/root/", asked)
    assert answer.status_code == 422
    assert "You cannot take the admin role from yourself." in answer.content.decode()
    assert roles(admin) == {"*": "admin"}
    assert client.post("/access/users/root/", {"act": "deactivate", "reason": "x"}).status_code == 422


def test_a_reset_password_is_shown_once(client: Client, make_user: MakeUser) -> None:
    anna = make_user("anna")
    answer = client.post("/access/users/anna/", {"act": "reset", "reason": "forgot"})
    password = re.search(r"<code>([^<]+)</code>", answer.content.decode())
    assert password is not None
    anna.refresh_from_db()
    assert anna.check_password(password[1])


@pytest.mark.parametrize("act", ["roles", "reset", "deactivate"])
@pytest.mark.parametrize("sheet", [{}, {"HBUS-Form": "1"}], ids=["without the script", "from a sheet"])
def test_every_act_upon_a_user_needs_a_reason(
    client: Client, make_user: MakeUser, act: str, sheet: dict[str, str]
) -> None:
    anna = make_user("anna", "viewer")
    asked = {"act": act, "role": ["operator"], "scope": ["*"], "reason": " \t "}
    refused = client.post("/access/users/anna/", asked, headers=sheet)
    assert refused.status_code == 422
    assert "This act needs a reason" in refused.content.decode()
    assert (refused["Content-Type"].startswith("text/plain")) is bool(sheet and act != "roles")
    anna.refresh_from_db()
    assert anna.is_active
    assert roles(anna) == {"*": "viewer"}
    assert not AuditEntry.objects.exclude(action="user.create").exists()


def test_deactivating_and_opening_again(client: Client, make_user: MakeUser) -> None:
    anna = make_user("anna")
    client.post("/access/users/anna/", {"act": "deactivate", "reason": "left"})
    anna.refresh_from_db()
    assert not anna.is_active
    assert "deactivated" in client.get("/access/users/anna/").content.decode()
    client.post("/access/users/anna/", {"act": "reactivate", "reason": "back"})
    anna.refresh_from_db()
    assert anna.is_active
    assert AuditEntry.objects.latest("seq").reason == "back"


def test_an_unknown_act_or_user_is_refused(client: Client, make_user: MakeUser) -> None:
    make_user("anna")
    answer = client.post("/access/users/anna/", {"act": "promote", "reason": "x"})
    assert answer.status_code == 422
    assert "There is no act" in answer.content.decode()
    assert client.get("/access/users/nobody/").status_code == 404


def test_the_page_tells_what_the_person_did_and_what_was_done_to_them(client: Client, make_user: MakeUser) -> None:
    anna = make_user("anna")
    services.reset_password(SYSTEM, anna, "forgot it")
    page = client.get("/access/users/anna/").content.decode()
    assert "reset the password of" in page
    assert "forgot it" in page
