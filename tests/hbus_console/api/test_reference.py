"""The OpenAPI document over HTTP: made once, and the same for whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.api import reference

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ADDRESS = "/api/v1/schema"
KINDS = ["application/vnd.oai.openapi", "application/vnd.oai.openapi+json", "application/yaml", "application/json"]


@pytest.fixture(autouse=True)
def nothing_made() -> Iterator[None]:
    kept = dict(reference._made)
    reference._made.clear()
    yield
    reference._made.update(kept)


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(accounts.create_user(SYSTEM, "boss", [ScopedRole(Role.ADMIN, "*")]).user)
    return client


def _refuse(*args: Any, **options: Any) -> Any:
    raise AssertionError("the document was made again")


def _headers(answer: HttpResponse) -> dict[str, str]:
    """But for the names of the one request."""
    return {name: value for name, value in answer.headers.items() if not name.endswith("-ID")}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_made_once_and_answered_alike(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    first = Client().get(ADDRESS, headers={"Accept": kind})
    monkeypatch.setattr(reference.Document, "generator_class", _refuse)
    second = Client().get(ADDRESS, headers={"Accept": kind})
    assert first.status_code == second.status_code == 200
    assert second.content == first.content
    assert _headers(second) == _headers(first)
    assert second.headers["Content-Type"].startswith(kind)


def test_it_does_not_depend_on_who_asks(admin: Client) -> None:
    told_nobody = Client().get(ADDRESS).content
    reference._made.clear()
    assert admin.get(ADDRESS).content == told_nobody


def test_a_kind_of_ones_own_is_made_for_oneself_and_kept_for_nobody() -> None:
    plain = Client().get(ADDRESS, headers={"Accept": "application/json"}).content
    indented = Client().get(ADDRESS, headers={"Accept": "application/json; indent=8"}).content
    assert indented != plain
    assert Client().get(ADDRESS, headers={"Accept": "application/json"}).content == plain
    assert len(reference._made) == 1
