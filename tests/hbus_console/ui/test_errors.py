from __future__ import annotations

import json

import pytest
from django.test import Client, RequestFactory

from hbus_console.ui.middleware import POLICY
from hbus_console.ui.views import errors

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_an_address_that_leads_nowhere_says_so_inside_the_frame(page: Client) -> None:
    response = page.get("/no-such-page/")
    assert response.status_code == 404
    html = response.content.decode()
    assert "Nothing is here" in html
    assert 'data-go="o"' in html
    assert response["X-Request-ID"] in html


def test_a_stranger_gets_it_without_the_menu() -> None:
    response = Client().get("/no-such-page/")
    assert response.status_code == 404
    assert "data-go=" not in response.content.decode()


def test_a_program_gets_a_problem() -> None:
    response = Client().get("/api/v1/no-such-endpoint")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    body = json.loads(response.content)
    assert body["status"] == 404
    assert body["instance"].startswith("urn:hbus:request:")


def test_a_broken_page_asks_neither_database_nor_session() -> None:
    # A request without session, user or actor, as after a failure in the middleware.
    response = errors.server_error(RequestFactory().get("/"))
    assert response.status_code == 500
    assert "Something broke here" in response.content.decode()
    problem = errors.server_error(RequestFactory().get("/api/v1/x"))
    assert problem["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("view", [errors.bad_request, errors.forbidden, errors.not_found])
def test_every_error_has_a_page(view: object) -> None:
    response = view(RequestFactory().get("/"))  # type: ignore[operator]
    assert b"<h1>" in response.content


def test_every_answer_carries_the_strict_policy(page: Client) -> None:
    for path in ("/", "/ui-kit/", "/no-such-page/", "/login/"):
        assert page.get(path)["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY


def test_no_page_of_ours_has_inline_script_or_style(page: Client) -> None:
    for path in ("/", "/ui-kit/", "/search/", "/cluster/", "/no-such-page/"):
        html = page.get(path).content.decode()
        assert " style=" not in html, path
        assert "<style" not in html, path
        assert "<script>" not in html, path
        assert " onclick=" not in html, path
