from __future__ import annotations

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_the_next_page_is_in_the_chosen_theme(page: Client) -> None:
    assert "data-theme" not in page.get("/ui-kit/").content.decode()
    response = page.post("/theme/", {"theme": "dark", "next": "/ui-kit/?range=24h"})
    assert response["Location"] == "/ui-kit/?range=24h"
    assert '<html lang="en" data-zone="UTC" data-theme="dark">' in page.get("/ui-kit/").content.decode()


def test_anything_else_follows_the_system_again(page: Client) -> None:
    page.post("/theme/", {"theme": "light"})
    page.post("/theme/", {"theme": "auto"})
    assert "data-theme" not in page.get("/ui-kit/").content.decode()


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_it_leads_nowhere_else(page: Client, elsewhere: str) -> None:
    assert page.post("/theme/", {"theme": "dark", "next": elsewhere})["Location"] == "/"


def test_a_forged_cookie_is_not_believed(page: Client) -> None:
    page.cookies["hbus_theme"] = '"><script>'
    assert "data-theme" not in page.get("/ui-kit/").content.decode()


def test_it_takes_a_post(page: Client) -> None:
    assert page.get("/theme/").status_code == 405
