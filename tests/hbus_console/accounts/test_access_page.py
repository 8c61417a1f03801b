from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.access.acts import VIEW, Role
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import ApiToken, User
from hbus_console.accounts.views import access
from hbus_console.audit.models import AuditEntry
from hbus_console.registry.acts import acts
from tests.hbus_console.accounts.conftest import later

MakeUser = Callable[..., User]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def anna(make_user: MakeUser, client: Client) -> User:
    user = make_user("anna", "operator", "booking.*")
    client.force_login(user)
    return user


def token_of(user: User, name: str = "ci") -> ApiToken:
    grant = user.grants.get()
    return services.create_token(actor_of(user), name, Role.VIEWER, grant.scope, later()).token


def text(answer: object) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))  # type: ignore[attr-defined]


def further(answer: object) -> str:
    found = re.search(r'<a href="([^"]*)" rel="next">Further tokens', answer.content.decode())  # type: ignore[attr-defined]
    assert found is not None
    return "/access/" + html.unescape(found[1]).removeprefix("/access/")


def test_one_sees_ones_own_roles_and_tokens_and_nobody_elses(client: Client, anna: User, make_user: MakeUser) -> None:
    token_of(anna, "reservations-api")
    token_of(make_user("bob", "viewer"), "secret-project")
    page = text(client.get("/access/"))
    assert "operator on  booking.*" in page
    assert "reservations-api" in page
    assert "secret-project" not in page
    assert "bob" not in page
    assert "Add a user" not in page


def test_what_a_role_adds_is_said_in_the_words_of_every_act_that_takes_it(client: Client, anna: User) -> None:
    client.force_login(anna)
    text = html.unescape(client.get("/access/").content.decode())
    told = dict(re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", text))
    assert [act.name for act in acts().values() if act is not VIEW and act.words not in told[act.needs.value]] == []
    assert told["viewer"].startswith("may see what is there, ")
    assert told["admin"].startswith("also may ")


def test_the_tokens_of_others_are_counted_and_the_newest_listed(
    client: Client, admin: User, anna: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        token_of(anna, f"token-{number}")
    client.force_login(admin)
    assert "Living tokens of others 3, the newest first" in " ".join(text(client.get("/access/")).split())
    monkeypatch.setattr(access, "PAGE", 2)
    page = client.get("/access/")
    assert "Living tokens of others 2 of 3, the newest first" in " ".join(text(page).split())
    assert [name in text(page) for name in ("token-0", "token-1", "token-2")] == [False, True, True]
    assert [name in text(client.get(further(page))) for name in ("token-0", "token-1")] == [True, False]


def test_a_living_token_is_never_behind_those_that_ended(
    client: Client, anna: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "PAGE", 2)
    made = [token_of(anna, f"token-{number}") for number in range(5)]
    ApiToken.objects.filter(pk__in=[made[2].pk, made[4].pk]).update(revoked_at=later(-1))
    ApiToken.objects.filter(pk=made[3].pk).update(expires_at=later(-1))
    page = client.get("/access/")
    assert "Your tokens 2 living of 5" in " ".join(text(page).split())
    seen = []
    for _ in range(3):
        seen.append(re.findall(r"token-\d", text(page).partition("What each role")[0].partition("Your tokens")[2]))
        if 'rel="next"' in page.content.decode():
            page = client.get(further(page))
    # The title of the sheet that revokes it names a living one again.
    assert [sorted(set(names)) for names in seen] == [["token-0", "token-1"], ["token-3", "token-4"], ["token-2"]]
    assert "No further token" in text(client.get(f"/access/?tokens=1-{made[0].pk}"))
    assert client.get("/access/?tokens=x").status_code == 400


def test_an_admin_sees_everybody(client: Client, admin: User, anna: User) -> None:
    token_of(anna, "reservations-api")
    client.force_login(admin)
    page = text(client.get("/access/"))
    assert "2 people may sign in, 1 program has a living token" in page
    assert "anna" in page
    assert "reservations-api" in page
    assert "Add a user" in page


def test_users_come_in_pages(client: Client, admin: User, monkeypatch: pytest.MonkeyPatch, make_user: MakeUser) -> None:
    monkeypatch.setattr("hbus_console.accounts.views.access.PAGE", 2)
    for name in ("a1", "a2", "a3"):
        make_user(name)
    client.force_login(admin)
    first = client.get("/access/").content.decode()
    assert "users/a1/" in first
    assert "users/a3/" not in first
    rest = client.get("/access/?cursor=a2").content.decode()
    assert "users/a3/" in rest
    assert "users/a1/" not in rest


@pytest.mark.parametrize("spoil", ["revoked_at", "expires_at"])
def test_dead_tokens_are_told_apart(client: Client, anna: User, spoil: str) -> None:
    token = token_of(anna)
    ApiToken.objects.filter(pk=token.pk).update(**{spoil: later(-1)})
    page = client.get("/access/").content.decode()
    assert {"revoked_at": "revoked", "expires_at": "expired"}[spoil] in page
    assert "Revoke…" not in page


def test_a_token_is_shown_once(client: Client, anna: User) -> None:
    asked = {"name": "ci", "role": "viewer", "scope": "booking.*", "days": "30"}
    answer = client.post("/access/tokens/new/", asked)
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    found = re.search(r"hbus_[0-9a-f]{10}_[A-Za-z0-9_-]{43}", answer.content.decode())
    assert found is not None
    assert services.authenticate_token(found[0])
    assert found[0] not in client.get("/access/").content.decode()
    again = client.post("/access/tokens/new/", asked)
    assert again.status_code == 422
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("name", "a/b", "is not a name for a token"),
        ("role", "editor", "it would be stronger than you are"),
        ("role", "king", "'king' is not a role"),
        ("scope", "*", "it would be stronger than you are"),
        ("scope", "book ing", "is not a scope"),
        ("days", "366", "from 1 to 365 days"),
        ("days", "x", "from 1 to 365 days"),
    ],
)
def test_a_refused_token_is_said_at_its_field(client: Client, anna: User, field: str, value: str, says: str) -> None:
    asked = {"name": "ci", "role": "viewer", "scope": "booking.*", "days": "30", field: value}
    answer = client.post("/access/tokens/new/", asked)
    assert answer.status_code == 422
    assert says in text(answer)
    assert not ApiToken.objects.exists()


def test_the_form_offers_no_role_above_ones_own(client: Client, anna: User) -> None:
    page = client.get("/access/tokens/new/").content.decode()
    assert "operator</option>" in page
    assert "editor</option>" not in page


def test_one_revokes_ones_own_token_and_cannot_see_anothers(client: Client, anna: User, make_user: MakeUser) -> None:
    own, other = token_of(anna), token_of(make_user("bob", "viewer"))
    assert client.post(f"/access/tokens/{own.prefix}/revoke/", {"reason": "lost"}).status_code == 302
    assert client.post(f"/access/tokens/{other.prefix}/revoke/", {"reason": "x"}).status_code == 404
    assert client.get(f"/access/tokens/{own.prefix}/revoke/").status_code == 405
    assert list(ApiToken.objects.filter(revoked_at__isnull=False)) == [own]
    assert AuditEntry.objects.latest("seq").reason == "lost"


def test_a_token_is_revoked_with_a_reason_alone(client: Client, anna: User) -> None:
    own = token_of(anna)
    refused = client.post(f"/access/tokens/{own.prefix}/revoke/", {"reason": "  "}, headers={"HBUS-Form": "1"})
    assert (refused.status_code, "This act needs a reason" in refused.content.decode()) == (422, True)
    assert not ApiToken.objects.filter(revoked_at__isnull=False).exists()


def test_an_admin_revokes_anybodys(client: Client, admin: User, anna: User) -> None:
    token = token_of(anna)
    client.force_login(admin)
    assert client.post(f"/access/tokens/{token.prefix}/revoke/", {"reason": "x"}).status_code == 302
    assert not ApiToken.objects.filter(revoked_at__isnull=True).exists()
