"""Walks every address of the console with every role and every method, and with a scope that must not be left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from hbus_console.access.acts import Role
from hbus_console.accounts.models import User
from tests.hbus_console.access_table import ANYONE, SIGNED_IN, TABLE
from tests.hbus_console.access_world import HIDDEN, SCOPE, World, inside, outside, person

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Weakest first; ``""`` is signed in without any role.
WHO = (None, "", *(role.value for role in Role))
#: Keywords that lead into a namespace.
SCOPED = (":topic>", ":name>", ":message_id>", ":letter_id>", ":seq>", ":group>")
SCOPED += (":operation_id>", ":rule_id>", ":alert_id>", ":silence_id>")
#: ``name`` is an example's here.
UNSCOPED = {"examples/<slug:name>/start/"}

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def walk(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[str]:
    for found in (resolver or get_resolver()).url_patterns:
        route = prefix + str(found.pattern)
        if isinstance(found, URLPattern):
            yield route
        else:
            yield from walk(found, route)


ROUTES = sorted(set(walk()))


def send(client: Client, route: str, method: str, world: World, asker: User | None) -> HttpResponseBase:
    """One request, its effects undone."""
    line = TABLE[route]
    body: Any = line.body.get(method, {})
    path = world.address(route, asker) + (f"?{line.query}" if line.query else "")
    with transaction.atomic():
        data = body(world) if callable(body) else body
        if method == "GET":
            answer = client.get(path)
        elif route.startswith("api/"):
            answer = client.generic(method, path, json.dumps(data), "application/json")
        elif method == "POST":
            answer = client.post(path, data)
        else:
            answer = client.generic(method, path)
        transaction.set_rollback(True)
    return answer


def refused(answer: HttpResponseBase) -> bool:
    to_login = answer.status_code == 302 and answer.headers["Location"].startswith("/login/")
    return answer.status_code in (401, 403) or to_login


def answers(answer: HttpResponseBase, permitted: bool) -> bool:
    """Whether the answer is that of a permitted request, or of one that is not: there, "no such thing" will do."""
    if permitted:
        return not refused(answer) and answer.status_code != 404
    return refused(answer) or answer.status_code == 404


def enough(role: str | None, needed: str) -> bool:
    if not role:
        return role == "" and needed == SIGNED_IN
    return needed == SIGNED_IN or Role(role).rank >= Role(needed).rank


def signed_in(user: User | None) -> Client:
    client = Client(raise_request_exception=True)
    if user is not None:
        client.force_login(user)
    return client


def content(answer: HttpResponseBase) -> bytes:
    if getattr(answer, "streaming", False):
        return b"".join(answer)  # type: ignore[arg-type]
    return answer.content  # type: ignore[attr-defined, no-any-return]


def test_every_address_says_who_may_use_it() -> None:
    missing = [f'    "{route}": may(GET="…"),' for route in ROUTES if route not in TABLE]
    assert not missing, "a new address must say who may use it; add to access_table.py:\n" + "\n".join(missing)
    gone = [route for route in TABLE if route not in ROUTES]
    assert not gone, f"these addresses are gone; take their lines out of access_table.py: {gone}"


@pytest.mark.parametrize("route", [route for route in ROUTES if route in TABLE])
def test_each_role_may_do_what_the_table_says_and_no_more(route: str) -> None:
    line, world = TABLE[route], inside()
    User.objects.create_user("somebody")
    wrong = []
    for role in WHO:
        user = None if role is None else person(f"a-{role or 'nobody'}", role)
        client = signed_in(user)
        for method in METHODS:
            answer = send(client, route, method, world, user)
            needed = line.roles.get(method)
            said = f"{method} by {role if role else 'nobody signed in' if role is None else 'no role'}"
            if needed is None:
                if answer.status_code != 405 and not refused(answer):
                    wrong.append(f"{said}: {answer.status_code}, but the table does not know {method}")
            elif answer.status_code >= 500 and answer.status_code != 503:
                wrong.append(f"{said}: broke with {answer.status_code}")
            elif answer.status_code == 405:
                wrong.append(f"{said}: 405, but the table says {needed}")
            elif needed != ANYONE and not answers(answer, enough(role, needed)):
                wrong.append(f"{said}: {answer.status_code}, but the table says {needed}: {content(answer)[:200]!r}")
    assert not wrong, "\n".join(wrong)


def _leads_into_a_namespace(route: str) -> bool:
    return route in TABLE and route not in UNSCOPED and any(keyword in route for keyword in SCOPED)


@pytest.mark.parametrize("route", [route for route in ROUTES if _leads_into_a_namespace(route)])
def test_nobody_reaches_beyond_their_scope(route: str) -> None:
    line, here, there = TABLE[route], inside(), outside()
    here.scope = there.scope = SCOPE
    narrow = person("narrow", "admin", SCOPE)
    client = signed_in(narrow)
    for method in line.roles:
        within = send(client, route, method, here, narrow)
        assert not refused(within), f"{method} within the scope: {within.status_code}"
        beyond = send(client, route, method, there, narrow)
        assert beyond.status_code in (403, 404), f"{method} beyond the scope: {beyond.status_code}"
        assert f"{HIDDEN} team".encode() not in content(beyond)


@pytest.mark.parametrize("route", [route for route in ROUTES if route in TABLE and TABLE[route].lists])
def test_lists_leave_out_what_lies_beyond_the_scope(route: str) -> None:
    here = inside()
    outside()
    here.scope = SCOPE
    for name, scope, sees in (("everything", "*", True), ("narrow", SCOPE, False)):
        user = person(name, "admin", scope)
        answer = send(signed_in(user), route, "GET", here, user)
        assert answer.status_code == 200
        shown = content(answer).decode()
        assert "booking.created" in shown, f"{name} should see their own"
        assert (f"{HIDDEN}." in shown) is sees, f"{name} {'misses' if sees else 'sees'} the other namespace"


CHANGING = [route for route in ROUTES if route in TABLE and TABLE[route].roles.keys() - {"GET"}]


@pytest.mark.parametrize("route", CHANGING)
def test_nothing_changes_without_the_csrf_token(route: str) -> None:
    line, world, user = TABLE[route], inside(), person("root", "admin")
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    for method in line.roles.keys() - {"GET"}:
        assert send(client, route, method, world, user).status_code == 403


@pytest.mark.parametrize("route", [route for route in ROUTES if route in TABLE])
def test_a_deactivated_account_is_nobody(route: str) -> None:
    line, world, user = TABLE[route], inside(), person("gone", "admin")
    client = signed_in(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    for method, needed in line.roles.items():
        if needed != ANYONE:
            assert refused(send(client, route, method, world, None)), method
