"""Whole numbers that people (and programs) send: whatever is none is an answer, never a 500."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.accounts.models import User
from hbus_console.alerts.models import Channel
from hbus_console.ui import forms
from tests.hbus_console.ui.conftest import topic

#: What ``str.isdigit`` takes and ``int`` does not; digits of another script; more than ``int`` reads.
NO_NUMBERS = ["²", "٣", "9" * 5_000, "9" * 30]


@pytest.mark.parametrize("sent", NO_NUMBERS)
def test_what_is_no_whole_number_stays_text_and_is_no_revision(sent: str) -> None:
    assert forms.whole({"n": sent}, "n") == sent
    assert forms.revision({"revision": sent}) is None


def test_a_whole_number_may_be_grouped() -> None:
    assert forms.whole({"n": " 10,000 "}, "n") == forms.whole({"n": "10_000"}, "n") == 10_000
    assert forms.revision({"revision": "7"}) == 7


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("22.5", 22.5),
        ("1,000", 1_000.0),
        ("1_234_567.25", 1_234_567.25),
        ("-12,345", -12_345.0),
        ("1e3", 1_000.0),
        # Found by a stranger: half of the world's fractions were saved ten times, or a hundred times, as large.
        ("22,5", "22,5"),
        ("0,5", "0,5"),
        ("1,00", "1,00"),
        ("12,34,567", "12,34,567"),
        ("1,000_000", "1,000_000"),
        ("12_3", "12_3"),
        (",5", ",5"),
        ("1.000,5", "1.000,5"),
        ("٣", "٣"),
    ],
)
def test_a_comma_parts_thousands_and_nothing_else(sent: str, read: object) -> None:
    assert forms.number({"n": sent}, "n") == read
    if "." not in sent and "e" not in sent and "-" not in sent:
        assert forms.whole({"n": sent}, "n") == (int(read) if isinstance(read, float) else read)


def test_who_writes_a_fraction_with_a_comma_is_told_how_it_is_written() -> None:
    with pytest.raises(BadInput, match=r"'22,5' was given. A fraction is written with a point."):
        checks.number(forms.number({"limit": "22,5"}, "limit"), "limit", least=0)


@pytest.mark.django_db(databases=["default", "ledger"])
@pytest.mark.parametrize("sent", NO_NUMBERS)
@pytest.mark.parametrize(
    "path",
    [
        "/dead-letters/?letter={}",
        "/dead-letters/?cursor={0}-{0}",
        "/messages/?cursor={0}-{0}",
        "/operations/?cursor={}",
        "/alerts/?cursor={0}-{0}",
        "/?from={}",
        "/operations/plan/redrive/?letter={}",
        "/api/v1/messages?cursor={0}-{0}",
        "/api/v1/messages?limit={}",
        "/api/v1/dead-letters?cursor={0}-{0}",
        "/api/v1/topics?limit={}",
    ],
)
def test_no_page_and_no_endpoint_breaks_over_one_in_its_address(page: Client, path: str, sent: str) -> None:
    assert page.get(path.format(sent)).status_code in {200, 400, 422}


@pytest.mark.django_db(databases=["default", "ledger"])
@pytest.mark.parametrize("sent", NO_NUMBERS)
def test_no_form_breaks_over_one(admin: User, browse: Callable[[User], Client], sent: str) -> None:
    client = browse(admin)
    topic("booking.created")
    channel = Channel.objects.create(name="mail", kind="email", recipients=["a@hotel.example"])
    for path, values in {
        "/topics/booking.created/settings/": {"revision": sent, "partitions": sent, "retention_hours": sent},
        f"/alerts/channels/{channel.pk}/": {"revision": sent},
        "/access/tokens/new/": {"name": "t", "days": sent},
    }.items():
        assert client.post(path, values).status_code in {200, 302, 400, 422}, path
