from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from hbus_console.access.acts import Role
from hbus_console.accounts import api_shapes as shapes
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import ApiToken, User
from hbus_console.api.answers import described
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit.models import AuditEntry
from tests.hbus_console.accounts.conftest import later

MakeUser = Callable[..., User]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def bearer(user: User, role: str = "admin", scope: str = "*") -> dict[str, str]:
    raw = services.create_token(actor_of(user), f"t-{role}", Role(role), scope, later()).raw
    return {"Authorization": f"Bearer {raw}"}


@pytest.fixture
def root(admin: User) -> dict[str, str]:
    return bearer(admin)


def test_me_says_who_i_am_and_what_i_may(client: Client, make_user: MakeUser) -> None:
    headers = bearer(make_user("anna", "editor", "booking.*"), "operator", "booking.*")
    answer = client.get("/api/v1/me", headers=headers).json()
    assert (answer["name"], answer["kind"]) == ("anna/t-operator", "token")
    assert answer["grants"] == [{"role": "editor", "scope": "booking.*"}]
    assert answer["limit"] == {"role": "operator", "scope": "booking.*"}
    assert answer["actions"]["publish"] == ["booking.*"]
    assert "topic.edit" not in answer["actions"]


@pytest.mark.parametrize("header", ["", "Bearer hbus_0000000000_x", "Bearer", "Basic cm9vdDp4"])
def test_without_a_token_there_is_nobody(client: Client, db: None, header: str) -> None:
    answer = client.get("/api/v1/me", headers={"Authorization": header} if header else {})
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"] == "Bearer"


def test_users_are_added_changed_and_listed(client: Client, admin: User) -> None:
    client.force_login(admin)
    body = {"username": "anna", "grants": [{"role": "viewer", "scope": "booking.*"}]}
    made = client.post("/api/v1/users", body, "application/json")
    assert made.status_code == 201
    assert User.objects.get(username="anna").check_password(made.json()["password"])
    change = {"grants": [{"role": "operator", "scope": "booking.*"}], "active": False, "reason": "on leave"}
    changed = client.patch("/api/v1/users/anna", change, "application/json").json()
    assert (changed["active"], changed["grants"]) == (False, [{"role": "operator", "scope": "booking.*"}])
    listed = client.get("/api/v1/users?limit=1").json()
    assert [row["username"] for row in listed["results"]] == ["anna"]
    rest = client.get(listed["next"]).json()
    assert [row["username"] for row in rest["results"]] == ["root"]
    assert "password" not in listed["results"][0]
    actors = set(AuditEntry.objects.filter(target="anna").values_list("actor", flat=True))
    assert actors == {"root"}


def test_who_found_an_admin_s_token_does_not_live_on_in_an_account(
    client: Client, admin: User, root: dict[str, str], make_user: MakeUser
) -> None:
    """Found by a stranger: the token gave its own maker another password, and made an admin."""
    make_user("anna", "viewer", "booking.*")
    tries = [
        ("post", "users", {"username": "bob", "grants": [{"role": "admin", "scope": "*"}]}),
        ("post", f"users/{admin.username}/password", {"reason": "forgot"}),
        ("patch", "users/anna", {"grants": [{"role": "admin", "scope": "*"}]}),
    ]
    for method, path, body in tries:
        answer = getattr(client, method)(f"/api/v1/{path}", body, "application/json", headers=root)
        assert answer.status_code == 403, path
        assert answer.json()["remedy"].startswith("Sign in")
    assert not User.objects.filter(username="bob").exists()
    assert not User.objects.filter(grants__role="admin").exclude(pk=admin.pk).exists()
    # To shut an account in a hurry it is enough.
    assert client.patch("/api/v1/users/anna", {"active": False}, "application/json", headers=root).status_code == 200


def test_a_token_opens_no_account_again(client: Client, admin: User, root: dict[str, str], make_user: MakeUser) -> None:
    """Found by a stranger: who knew the password of a shut admin account was one again by a token that leaked."""
    other = make_user("anna", "admin", "*")
    assert client.patch("/api/v1/users/anna", {"active": False}, "application/json", headers=root).status_code == 200
    answer = client.patch("/api/v1/users/anna", {"active": True}, "application/json", headers=root)
    assert (answer.status_code, answer.json()["remedy"][:7]) == (403, "Sign in")
    other.refresh_from_db()
    assert not other.is_active
    client.force_login(admin)
    assert client.patch("/api/v1/users/anna", {"active": True}, "application/json").status_code == 200


def test_a_person_has_no_more_tokens_than_they_can_look_after(client: Client, admin: User, settings: Settings) -> None:
    settings.HBUS_TOKENS_PER_PERSON = 2
    client.force_login(admin)
    body = {"role": "viewer", "scope": "*", "expires_at": later().isoformat()}

    def made(name: str) -> Any:
        return client.post("/api/v1/tokens", {**body, "name": name}, "application/json")

    prefix = made("a").json()["prefix"]
    assert made("b").status_code == 201
    refused = made("c")
    assert (refused.status_code, refused.json()["field"]) == (422, "name")
    assert client.delete(f"/api/v1/tokens/{prefix}").status_code == 204
    assert made("c").status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "username"),
        ({"username": 3}, "username"),
        ({"username": "anna", "admin": True}, "admin"),
        ({"username": "anna", "grants": [{"role": "king", "scope": "*"}]}, "grants[0].role"),
        ({"username": "anna", "grants": [{"role": "viewer"}]}, "grants[0].scope"),
        ({"username": "anna", "grants": [{"role": "viewer", "scope": "a b"}]}, "scope"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(
    client: Client, admin: User, body: dict[str, Any], field: str
) -> None:
    client.force_login(admin)
    answer = client.post("/api/v1/users", body, "application/json")
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["field"] == field
    assert problem["remedy"]
    assert not User.objects.filter(username="anna").exists()


def test_a_password_is_reset(client: Client, admin: User, make_user: MakeUser) -> None:
    anna = make_user("anna")
    client.force_login(admin)
    answer = client.post("/api/v1/users/anna/password", {"reason": "forgot"}, "application/json")
    anna.refresh_from_db()
    assert anna.check_password(answer.json()["password"])


def test_answers_that_hold_a_secret_are_never_kept(client: Client, root: dict[str, str]) -> None:
    headers = {**root, "Idempotency-Key": "k1"}
    answer = client.post("/api/v1/users", {"username": "anna"}, "application/json", headers=headers)
    assert answer.status_code == 422
    assert answer.json()["field"] == "Idempotency-Key"
    assert not User.objects.filter(username="anna").exists()
    assert not IdempotencyRecord.objects.exists()


def test_a_person_makes_a_token_and_a_program_cannot(client: Client, admin: User, root: dict[str, str]) -> None:
    body = {"name": "ci", "role": "viewer", "scope": "*", "expires_at": later().isoformat()}
    assert client.post("/api/v1/tokens", body, "application/json", headers=root).status_code == 403
    client.force_login(admin)
    made = client.post("/api/v1/tokens", body, "application/json")
    assert made.status_code == 201
    assert services.authenticate_token(made.json()["token"])
    listed = client.get("/api/v1/tokens").json()["results"]
    assert [row["name"] for row in listed] == ["ci", "t-admin"]
    assert made.json()["token"] not in str(listed)


def test_everybodys_tokens_are_for_admins(client: Client, make_user: MakeUser, root: dict[str, str]) -> None:
    anna = bearer(make_user("anna", "governor"), "governor")
    own = client.get("/api/v1/tokens", headers=anna).json()["results"]
    assert [row["user"] for row in own] == ["anna"]
    assert client.get("/api/v1/tokens?all=1", headers=anna).status_code == 403
    everybody = client.get("/api/v1/tokens?all=1", headers=root).json()["results"]
    assert {row["user"] for row in everybody} == {"anna", "root"}


def test_a_token_is_revoked_by_its_owner_and_looks_like_none_to_others(
    client: Client, make_user: MakeUser, root: dict[str, str]
) -> None:
    anna = bearer(make_user("anna", "viewer"), "viewer")
    bob = bearer(make_user("bob", "governor"), "viewer")
    prefix = ApiToken.objects.get(user__username="anna").prefix
    assert client.delete(f"/api/v1/tokens/{prefix}", headers=bob).status_code == 404
    assert client.delete(f"/api/v1/tokens/{prefix}?reason=lost", headers=anna).status_code == 204
    assert client.get("/api/v1/me", headers=anna).status_code == 401
    assert client.delete(f"/api/v1/tokens/{prefix}", headers=root).status_code == 204


def test_a_token_is_told_of_itself_alone(client: Client, make_user: MakeUser) -> None:
    """Found by a stranger: the narrowest token of somebody ended all others."""
    anna = make_user("anna", "operator")
    narrow, wide = bearer(anna, "viewer", "booking.*"), bearer(anna, "operator")
    prefixes = dict(ApiToken.objects.filter(user=anna).values_list("name", "prefix"))
    listed = client.get("/api/v1/tokens", headers=narrow).json()["results"]
    assert [row["name"] for row in listed] == ["t-viewer"]
    other = f"/api/v1/tokens/{prefixes['t-operator']}"
    assert client.delete(other, headers=narrow).status_code == 404
    assert client.get("/api/v1/me", headers=wide).status_code == 200
    assert client.delete(f"/api/v1/tokens/{prefixes['t-viewer']}", headers=narrow).status_code == 204
    client.force_login(anna)
    assert len(client.get("/api/v1/tokens").json()["results"]) == 2
    assert client.delete(other).status_code == 204


def test_a_deactivated_user_has_no_api(client: Client, make_user: MakeUser, root: dict[str, str]) -> None:
    anna = bearer(make_user("anna", "viewer"), "viewer")
    assert client.get("/api/v1/me", headers=anna).status_code == 200
    client.patch("/api/v1/users/anna", {"active": False}, "application/json", headers=root)
    assert client.get("/api/v1/me", headers=anna).status_code == 401


def test_a_refused_act_of_the_api_is_audited(client: Client, make_user: MakeUser) -> None:
    anna = bearer(make_user("anna", "governor"), "governor")
    assert client.post("/api/v1/users", {"username": "bob"}, "application/json", headers=anna).status_code == 403
    entry = AuditEntry.objects.latest("seq")
    assert (entry.action, entry.actor) == ("access.manage.refused", "anna/t-governor")


@pytest.mark.parametrize(
    "change", [{"active": None}, {"grants": None}, {"active": None, "grants": [], "reason": ""}], ids=str
)
def test_a_change_that_the_document_forbids_is_refused(
    client: Client, root: dict[str, str], make_user: MakeUser, change: dict[str, Any]
) -> None:
    """Found by a stranger: the two said it twice, and null took all roles away."""
    make_user("anna", "viewer", "booking.*")
    refused = client.patch("/api/v1/users/anna", change, "application/json", headers=root)
    assert refused.status_code == 422
    assert client.get("/api/v1/users/anna", headers=root).json()["grants"] == [{"role": "viewer", "scope": "booking.*"}]
    # What the document says is made of what is read.
    said = described(shapes.UserChange)
    assert said["properties"]["active"] == {"type": "boolean"}
    assert said["properties"]["grants"]["type"] == "array"
    assert (said["additionalProperties"], said.get("required", [])) == (False, [])
