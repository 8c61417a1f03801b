"""Walks every address of the console with every role and every method, and with a scope that must not be left."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from http.cookies import SimpleCookie
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
EVERYBODY = (None, "", *(role.value for role in Role))
#: Who may do what is decided from what was read, wherever that was read: on a further database two walk, one who may
#: little and one who may everything.
WHO = (Role.VIEWER.value, Role.ADMIN.value) if os.environ.get("HBUS_TEST_DATABASE") else EVERYBODY
#: Who tries what no address knows: who may everything, and who is nobody.
UTMOST = (None, Role.ADMIN.value)
#: Keywords that lead into a namespace.
SCOPED = (":topic>", ":name>", ":message_id>", ":letter_id>", ":seq>", ":group>")
SCOPED += (":operation_id>", ":rule_id>", ":alert_id>", ":silence_id>", ":job>", ":run_id>", ":audit_id>")
NUMBERS = ("letter_id", "seq", "rule_id", "alert_id", "silence_id", "operation_id", "run_id", "audit_id")
#: ``name`` is an example's here.
UNSCOPED = {"examples/<slug:name>/start/"}

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.above_database]


def walk(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[str]:
    for found in (resolver or get_resolver()).url_patterns:
        route = prefix + str(found.pattern)
        if isinstance(found, URLPattern):
            yield route
        else:
            yield from walk(found, route)


ROUTES = sorted(set(walk()))
#: What the table lacks fails a test of its own.
KNOWN = [route for route in ROUTES if route in TABLE]


class Asker:
    """Somebody, or nobody, at a browser whose cookies no answer changes: the same asker for every request of a walk."""

    def __init__(self, user: User | None, *, enforce_csrf_checks: bool = False) -> None:
        self.user = user
        self._client = Client(enforce_csrf_checks=enforce_csrf_checks)
        if user is not None:
            self._client.force_login(user)
        self._cookies = {name: morsel.value for name, morsel in self._client.cookies.items()}

    def send(self, route: str, method: str, world: World) -> HttpResponseBase:
        """One request, its effects undone: in the databases and in the browser, which a sign-out would empty."""
        line = TABLE[route]
        body: Any = line.body.get(method, {})
        path = world.address(route, self.user) + (f"?{line.query.format(**vars(world))}" if line.query else "")
        self._client.cookies = SimpleCookie(self._cookies)
        try:
            with transaction.atomic(), transaction.atomic(using="ledger"):
                data = body(world) if callable(body) else body
                if method == "GET":
                    answer = self._client.get(path)
                elif route.startswith("api/"):
                    answer = self._client.generic(method, path, json.dumps(data), "application/json")
                elif method == "POST":
                    answer = self._client.post(path, data)
                else:
                    answer = self._client.generic(method, path)
                transaction.set_rollback(True)
                transaction.set_rollback(True, using="ledger")
        except Exception as error:
            error.add_note(f"{method} /{route} by {self.user or 'nobody signed in'}")
            raise
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


def content(answer: HttpResponseBase) -> bytes:
    if getattr(answer, "streaming", False):
        return b"".join(answer)  # type: ignore[arg-type]
    return answer.content  # type: ignore[attr-defined, no-any-return]


def test_every_address_says_who_may_use_it() -> None:
    missing = [f'    "{route}": may(GET="…"),' for route in ROUTES if route not in TABLE]
    assert not missing, "a new address must say who may use it; add to access_table.py:\n" + "\n".join(missing)
    gone = [route for route in TABLE if route not in ROUTES]
    assert not gone, f"these addresses are gone; take their lines out of access_table.py: {gone}"


@pytest.mark.parametrize("role", WHO, ids=lambda role: role if role else "nobody" if role is None else "no role")
def test_each_role_may_do_what_the_table_says_and_no_more(role: str | None) -> None:
    world = inside()
    User.objects.create_user("somebody")
    asker = Asker(None if role is None else person(f"a-{role or 'nobody'}", role))
    who = role if role else "nobody signed in" if role is None else "no role"
    wrong = []
    for route in KNOWN:
        # What an admin is told not to be there is there for nobody.
        for method in METHODS if role in UTMOST else TABLE[route].roles:
            answer = asker.send(route, method, world)
            needed = TABLE[route].roles.get(method)
            said = f"{method} /{route} by {who}"
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
    return route not in UNSCOPED and (any(keyword in route for keyword in SCOPED) or "{" in TABLE[route].query)


def test_nobody_reaches_beyond_their_scope() -> None:
    here, there = inside(), outside()
    here.scope = there.scope = SCOPE
    narrow = Asker(person("narrow", "admin", SCOPE))
    wrong = []
    for route in filter(_leads_into_a_namespace, KNOWN):
        for method in TABLE[route].roles:
            said = f"{method} /{route} by an admin of {SCOPE}"
            within = narrow.send(route, method, here)
            if refused(within):
                wrong.append(f"{said}, within the scope: {within.status_code}")
            beyond = narrow.send(route, method, there)
            if beyond.status_code not in (403, 404):
                wrong.append(f"{said}, beyond the scope: {beyond.status_code}")
            if f"{HIDDEN} team".encode() in content(beyond):
                wrong.append(f"{said}, beyond the scope: it tells of the {HIDDEN} team")
    assert not wrong, "\n".join(wrong)


def test_nobody_learns_what_is_there_beyond_their_scope() -> None:
    """What is there and may not be seen is answered as what is not there: rights are asked before rows."""
    here, there = inside(), outside()
    here.scope = there.scope = SCOPE
    nothing: dict[str, Any] = dict.fromkeys(("topic", "group", "team", "message_id"), f"{HIDDEN}-nothing")
    nothing |= {name: number + 1_000 for name, number in vars(there).items() if name in NUMBERS}
    nowhere = replace(there, **nothing)
    narrow = Asker(person("narrow", "admin", SCOPE))
    wrong = []
    for route in filter(_leads_into_a_namespace, KNOWN):
        for method in TABLE[route].roles:
            there_is, there_is_not = (narrow.send(route, method, world) for world in (there, nowhere))
            if there_is.status_code != there_is_not.status_code:
                wrong.append(f"{method} /{route}: {there_is.status_code}, and {there_is_not.status_code} for nothing")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "scope", "sees"), [("everything", "*", True), ("narrow", SCOPE, False)])
def test_lists_leave_out_what_lies_beyond_the_scope(name: str, scope: str, sees: bool) -> None:
    here = inside()
    outside()
    here.scope = SCOPE
    asker = Asker(person(name, "admin", scope))
    wrong = []
    for route in (route for route in KNOWN if TABLE[route].lists):
        answer = asker.send(route, "GET", here)
        said = f"GET /{route} by an admin of {scope}"
        if answer.status_code != 200:
            wrong.append(f"{said}: {answer.status_code}")
            continue
        shown = content(answer).decode()
        if "booking.created" not in shown:
            wrong.append(f"{said}: should see their own")
        if (f"{HIDDEN}." in shown) is not sees:
            wrong.append(f"{said}: {'misses' if sees else 'sees'} the other namespace")
    assert not wrong, "\n".join(wrong)


def test_nothing_changes_without_the_csrf_token() -> None:
    world, root = inside(), Asker(person("root", "admin"), enforce_csrf_checks=True)
    wrong = []
    for route in (route for route in KNOWN if not TABLE[route].keyed):
        for method in sorted(TABLE[route].roles.keys() - {"GET"}):
            answer = root.send(route, method, world)
            if answer.status_code != 403:
                wrong.append(f"{method} /{route} by an admin without the token: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


def test_a_deactivated_account_is_nobody() -> None:
    world, user = inside(), person("gone", "admin")
    gone = Asker(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    # Nor does it keep a token that an address could be filled with.
    gone.user = None
    wrong = []
    for route in KNOWN:
        for method, needed in TABLE[route].roles.items():
            if needed != ANYONE:
                answer = gone.send(route, method, world)
                if not refused(answer):
                    wrong.append(f"{method} /{route} by a deactivated admin: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
