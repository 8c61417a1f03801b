"""The bench of limits: what the address asks is played and drawn, and what cannot be played is told by its field."""

from __future__ import annotations

import pytest
from django.test import Client

from hbus_console.quotas.models import QuotaPolicy
from tests.hbus_console.access_world import person
from tests.hbus_console.quotas.conftest import MakePolicy

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def page() -> Client:
    client = Client()
    client.force_login(person("ada", "viewer", "hotels.*"))
    return client


def _text(client: Client, query: str, status: int = 200) -> str:
    answer = client.get(f"/quotas/try/{query}")
    assert answer.status_code == status, answer.content[:500]
    return " ".join(answer.content.decode().split())


def test_a_flood_is_played_against_a_policy_and_one_of_ones_own(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partners", 10, 20)
    flood = "shape=flood&rate=5&peak=50&seconds=30&nodes=2"
    html = _text(page, f"?policy=partners&{flood}")
    assert "10/s · burst 20" in html
    assert "of 600 calls" in html
    assert "the limit allows 320 in that time" in html
    assert 'class="text-bad">' in html
    wide = _text(page, f"?limit=1000&burst=1000&{flood}")
    assert "admitted <b>100.0 %</b> of 600 calls" in wide
    assert QuotaPolicy.objects.count() == 1, "nothing is changed"


def test_the_chart_tells_what_the_page_tells(page: Client) -> None:
    query = "?limit=10&burst=10&shape=burst&rate=1&peak=30&seconds=60&wait_s=1&cut_from=30&cut_to=45"
    data = page.get(f"/quotas/try/chart/{query}").json()
    assert [series["name"] for series in data["series"]] == ["admitted", "delayed", "refused", "asked"]
    slot_s = 0.5
    admitted, _, refused, asked = (sum(series["values"]) * slot_s for series in data["series"])
    assert asked == admitted + refused == 90
    assert data["marks"] == [{"t": 30.0, "label": "cut off"}, {"t": 45.0, "label": "back again"}]
    assert f"admitted <b>{100 * admitted / asked:.1f} %</b> of 90 calls" in _text(page, query)
    # Found by a stranger: traffic that nobody sent stood at a time of day.
    assert data["from_start"] is True
    assert (data["t"][0], data["t"][-1]) == (0, 59.5)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("rate=many", "rate"),
        ("seconds=0", "seconds"),
        ("seconds=9999999", "seconds"),
        ("nodes=99", "nodes"),
        ("shape=star", "shape"),
        ("cut_from=9&cut_to=3", "cut_to"),
        ("rate=1000000", "rate"),
        ("limit=-1", "limit"),
        ("tokens=1.5", "tokens"),
        ("wait_s=61", "wait_s"),
        ("seconds=3600&nodes=16&rate=1&peak=1", "nodes"),
    ],
)
def test_what_cannot_be_played_is_told_beside_its_field(page: Client, query: str, field: str) -> None:
    html = _text(page, f"?{query}", 422)
    assert f'id="e-{field}"' in html
    assert page.get(f"/quotas/try/chart/?{query}").status_code == 400


def test_several_faults_are_told_at_once(page: Client) -> None:
    html = _text(page, "?rate=many&nodes=99", 422)
    assert 'id="e-rate"' in html
    assert 'id="e-nodes"' in html


def test_a_policy_of_seats_cannot_be_played_and_an_unknown_one_is_not_there(
    page: Client, make_policy: MakePolicy
) -> None:
    make_policy("uploads", 3, period="at once")
    assert "depends on how long each takes" in _text(page, "?policy=uploads", 422)
    assert page.get("/quotas/try/?policy=nobody").status_code == 422
