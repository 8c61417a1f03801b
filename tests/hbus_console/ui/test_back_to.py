"""Where an act of a page leads back to."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from hbus_console.ui.pages import back_to

LIST = "/audit/"
NARROWED = f"http://testserver{LIST}?by=people&range=7d"


@pytest.mark.parametrize(
    ("came", "leads"),
    [
        (NARROWED, f"{LIST}?by=people&range=7d"),
        ("http://testserver/audit/", LIST),
        ("http://testserver/topics/?by=people", LIST),
        ("https://evil.example/audit/?by=people", LIST),
        ("http://[evil/audit/?by=people", LIST),
        ("", LIST),
    ],
)
def test_an_act_leads_back_to_its_page_as_it_was_narrowed(came: str, leads: str) -> None:
    request = RequestFactory().post("/audit/verify/", headers={"Referer": came} if came else {})
    assert back_to(request, "audit:list")["Location"] == leads
