"""A form that a script posts under a key: done once, and what became of it can be asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db.models import F
from django.http import HttpResponse
from django.test import Client

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.api import form_posts, idempotency
from hbus_console.api.models import IdempotencyRecord
from hbus_console.audit.models import AuditEntry
from hbus_console.teams import services as teams
from hbus_console.teams.models import Team

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]
KEY = "0f3c1d"
#: What the record of a form holds until it is answered.
REQUEST = b"req-01M0000000000000000000000A"
TEAM = {"act": "create", "name": "Reservations", "contact": "#reservations"}


@pytest.fixture
def signed_in(audit_state: object) -> SignIn:
    def enter(role: str = "admin") -> Client:
        user = User.objects.create_user(f"a-{role}")
        services.change_grants(SYSTEM, user, [ScopedRole(Role(role), "*")])
        client = Client()
        client.force_login(user)
        return client

    return enter


def post(client: Client, path: str = "/teams/", key: str = KEY, **form: str) -> HttpResponse:
    marks = {"HBUS-Form": "1", "Idempotency-Key": key, "X-Correlation-ID": f"form-{key}"}
    return client.post(path, form, headers=marks)  # type: ignore[return-value]


def ask(client: Client, key: str = KEY, path: str = "/teams/") -> HttpResponse:
    asked = {"key": key, "path": path}
    return client.post("/audit/posted/", asked, headers={"HBUS-Form": "1"})  # type: ignore[return-value]


def became(client: Client, key: str = KEY, path: str = "/teams/") -> Any:
    return json.loads(ask(client, key, path).content)


def test_a_form_of_which_nothing_was_told_is_refused_when_it_comes_late(signed_in: SignIn) -> None:
    client = signed_in()
    assert became(client) == {"state": "nothing", "location": ""}
    late = post(client, **TEAM)
    assert (late.status_code, Team.objects.count()) == (409, 0)
    assert b"given up" in late.content
    assert became(client)["state"] == "nothing"
    assert post(client, key="another", **TEAM).status_code == 204


def test_a_form_to_an_address_with_escapes_is_given_up_as_well(signed_in: SignIn) -> None:
    client = signed_in()
    assert became(client, path="/teams/caf%C3%A9/")["state"] == "nothing"
    assert post(client, "/teams/café/", act="remove").status_code == 409


def test_a_form_that_came_between_the_look_and_the_giving_up_has_its_key(
    signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, look = signed_in(), form_posts.found

    def come_after(who: Actor, key: str) -> IdempotencyRecord | None:
        before = look(who, key)
        post(client, "/theme/", theme="dark", next="/")
        IdempotencyRecord.objects.update(status=0, response=REQUEST)
        return before

    monkeypatch.setattr(form_posts, "found", come_after)
    assert became(client, path="/theme/")["state"] == "working"
    assert IdempotencyRecord.objects.get().status == 0


def test_one_who_has_a_key_gives_up_nobody_elses_form(signed_in: SignIn) -> None:
    assert became(signed_in("operator"))["state"] == "nothing"
    assert post(signed_in(), **TEAM).status_code == 204


def test_what_was_given_up_is_forgotten_with_the_keys(signed_in: SignIn) -> None:
    became(signed_in())
    IdempotencyRecord.objects.update(created_at=F("created_at") - idempotency.KEEP - timedelta(seconds=1))
    assert idempotency.expire() == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 129])
def test_what_is_no_key_is_not_given_up(signed_in: SignIn, key: str) -> None:
    assert ask(signed_in(), key).status_code == 400
    assert not IdempotencyRecord.objects.exists()


def test_another_site_cannot_ask(signed_in: SignIn) -> None:
    asked = signed_in().post("/audit/posted/", {"key": KEY, "path": "/teams/"})
    assert (asked.status_code, IdempotencyRecord.objects.exists()) == (400, False)


def test_a_page_from_before_the_last_sign_in_can_ask(signed_in: SignIn) -> None:
    client = signed_in()
    client.handler.enforce_csrf_checks = True
    assert became(client)["state"] == "nothing"


def test_what_was_done_is_told_with_where_it_led(signed_in: SignIn) -> None:
    client = signed_in()
    done = post(client, **TEAM)
    assert (done.status_code, done["HBUS-Location"]) == (204, "/teams/")
    assert not done.has_header("Location")
    assert became(client) == {"state": "done", "location": "/teams/"}


def test_the_same_form_again_does_nothing_twice_and_leads_to_the_same_place(signed_in: SignIn) -> None:
    client = signed_in()
    post(client, **TEAM)
    again = post(client, **TEAM)
    assert (again.status_code, again["HBUS-Location"]) == (204, "/teams/")
    assert Team.objects.count() == 1
    assert AuditEntry.objects.filter(action="team.create").count() == 1


def test_where_a_form_led_is_told_to_who_may_still_do_as_much(signed_in: SignIn) -> None:
    client = signed_in()
    post(client, **TEAM)
    User.objects.get(username="a-admin").grants.update(role="viewer")
    again = post(client, **TEAM)
    assert (again.status_code, again.has_header("HBUS-Location")) == (409, False)
    assert "may do less" in again.json()["detail"]
    assert became(client) == {"state": "done", "location": ""}


def test_what_was_refused_was_not_done_and_may_be_sent_again(signed_in: SignIn) -> None:
    client = signed_in()
    refused = post(client, act="create", name="", contact="")
    assert refused.status_code >= 400
    assert not IdempotencyRecord.objects.exists()
    assert post(client, **TEAM).status_code == 204


def test_of_what_was_refused_nothing_is_told(signed_in: SignIn) -> None:
    client = signed_in()
    post(client, act="create", name="", contact="")
    assert became(client)["state"] == "nothing"


def test_what_left_no_entry_was_answered_at_most(signed_in: SignIn) -> None:
    client = signed_in()
    post(client, "/theme/", theme="dark", next="/")
    assert became(client)["state"] == "answered"


@pytest.mark.parametrize("status", [0, idempotency.OPEN], ids=["died", "failed"])
def test_an_act_cut_off_by_a_death_is_known_by_its_audit_entry(signed_in: SignIn, status: int) -> None:
    client = signed_in()
    post(client, **TEAM)
    # Killed between the commit and the answer: the record tells the request alone.
    IdempotencyRecord.objects.update(status=status, response=AuditEntry.objects.latest("seq").request_id.encode())
    assert became(client) == {"state": "done", "location": ""}


def test_one_that_may_be_under_way_is_waited_for_and_never_said_to_be_nothing(signed_in: SignIn) -> None:
    client = signed_in()
    post(client, "/theme/", theme="dark", next="/")
    IdempotencyRecord.objects.update(status=0, response=REQUEST)
    assert became(client) == {"state": "working", "location": ""}
    record = IdempotencyRecord.objects.get()
    IdempotencyRecord.objects.update(created_at=record.created_at - timedelta(minutes=2))
    # It may live, and come to its end.
    assert became(client, path="/theme/") == {"state": "unknown", "location": ""}
    # Its repeat takes the key over.
    assert post(client, "/theme/", theme="dark", next="/").status_code == 204


def test_who_only_looks_gives_up_nothing_and_is_not_told_that_nothing_was_done(signed_in: SignIn) -> None:
    client = signed_in()
    # As the script of a release before does: by its address alone.
    looked = client.get("/audit/posted/", {"key": KEY})
    assert looked.json() == {"state": "working", "location": ""}
    post(client, **TEAM)
    assert client.get("/audit/posted/", {"key": KEY}).json()["state"] == "done"


def test_a_first_try_refused_late_leaves_the_answer_of_its_repeat(
    signed_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = signed_in()

    def be_slow(*_: object) -> None:
        monkeypatch.undo()
        IdempotencyRecord.objects.update(created_at=F("created_at") - idempotency.ABANDONED_AFTER * 2)
        assert post(client, **TEAM).status_code == 204
        raise BadInput("late")

    monkeypatch.setattr(teams, "create_team", be_slow)
    assert post(client, **TEAM).status_code >= 400
    again = post(client, **TEAM)
    assert (again.status_code, again["HBUS-Location"]) == (204, "/teams/")
    assert Team.objects.count() == 1


def test_nobody_is_told_of_what_another_posted(signed_in: SignIn) -> None:
    post(signed_in(), **TEAM)
    assert became(signed_in("operator"))["state"] == "nothing"


def test_who_is_not_signed_in_is_led_to_the_door_and_no_key_is_kept(client: Client) -> None:
    led = post(client, **TEAM)
    assert (led.status_code, led["HBUS-First"]) == (401, "/login/?ended=1")
    assert not IdempotencyRecord.objects.exists()
    assert ask(client).status_code == 401
    assert not IdempotencyRecord.objects.exists()


def test_without_the_mark_a_form_is_answered_as_ever(signed_in: SignIn) -> None:
    done = signed_in().post("/teams/", TEAM, headers={"Idempotency-Key": KEY})
    assert (done.status_code, done["Location"]) == (302, "/teams/")
    assert [str(said) for said in get_messages(done.wsgi_request)]
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.parametrize("path", ["/" + "a" * 60_000, "/teams/" + "%61" * 300 + "/"], ids=len)
def test_who_may_only_look_fills_no_row_by_a_long_address(signed_in: SignIn, path: str) -> None:
    """Found by a stranger: 64 KB a row, kept for a day."""
    client = signed_in("viewer")
    assert ask(client, path=path).status_code == 400
    long = f"/teams/{'a' * 400}/"
    assert ask(client, path=long).status_code == 400
    # Nor by a form that is posted, nor by a request.
    assert post(client, long).status_code == 409
    keyed = {"Idempotency-Key": KEY, "HBUS-Form": ""}
    assert client.post(f"/api/v1/teams/{'a' * 400}", "{}", "application/json", headers=keyed).status_code >= 400
    assert not IdempotencyRecord.objects.exists()


def test_so_many_forms_are_given_up_and_no_more(signed_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MOST_GIVEN_UP", 2)
    client = signed_in("viewer")
    assert [became(client, f"k{n}")["state"] for n in range(3)] == ["nothing", "nothing", "not come"]
    assert IdempotencyRecord.objects.count() == 2
    # What was given up is so still, and others have a number of their own.
    assert became(client, "k0")["state"] == "nothing"
    assert became(signed_in("operator"), "k9")["state"] == "nothing"


def test_the_longest_route_is_what_its_column_holds() -> None:
    column = IdempotencyRecord._meta.get_field("route")
    assert column.max_length == idempotency.LONGEST_ROUTE == 300
