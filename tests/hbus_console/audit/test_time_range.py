"""Whatever names a time range, what is listed of the audit log lies in it: on the page, in an export, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from hbus_console.audit.models import AuditEntry
from tests.hbus_console.audit.conftest import Write
from tests.hbus_console.audit.test_pages import sign_in as sign_in  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]


@pytest.fixture
def aged(sign_in: SignIn, write: Write, tamper: Any) -> tuple[Client, int]:
    """Entries of an hour ago, of two hours, a day and three days ago, by their reasons; and now in milliseconds."""
    client, now = sign_in("admin"), timezone.now()
    for hours in (72, 20, 2, 0.5):
        (entry,) = write(1, reason=f"{hours} h")
        tamper("UPDATE audit_auditentry SET at = %s WHERE seq = %s", [now - timedelta(hours=hours), entry.seq])
    return client, round(now.timestamp() * 1000)


def test_the_page_the_api_and_the_export_hold_what_lies_in_it(aged: tuple[Client, int]) -> None:
    client, now_ms = aged
    hour = 3_600_000
    for named, found in (
        ("range=15m", set()),
        ("range=1h", {"0.5 h"}),
        ("range=3h", {"0.5 h", "2 h"}),
        ("range=7d", {"0.5 h", "2 h", "20 h", "72 h"}),
        (f"from={now_ms - 21 * hour}", {"0.5 h", "2 h", "20 h"}),
        (f"from={now_ms - 21 * hour}&to={now_ms - hour}", {"2 h", "20 h"}),
        (f"range=7d&from={now_ms - 21 * hour}&to={now_ms - hour}", {"2 h", "20 h"}),
        ("", {"0.5 h", "2 h", "20 h", "72 h"}),
    ):
        page = client.get(f"/audit/?action=topic.pause&{named}")
        assert {told.entry.reason for told in page.context["told"]} == found, named
        answer = client.get(f"/api/v1/audit/entries?action=topic.pause&{named}").json()
        assert {entry["reason"] for entry in answer["results"]} == found, named
        # As the page's own form sends it.
        sent = f"/audit/export/?{page.context['span'].query}" if page.context["span"] else "/audit/export/"
        body = {"as": "jsonl", "reason": "review", "action": "topic.pause"}
        file = b"".join(client.post(sent, body).streaming_content)  # type: ignore[attr-defined]
        assert {json.loads(line)["reason"] for line in file.splitlines()} == found, named


def test_the_bar_says_that_the_whole_log_is_shown(aged: tuple[Client, int]) -> None:
    client, _ = aged
    for asked, label in (("", "All times"), ("?range=1h", "Last hour"), ("?range=7d", "Last 7 days")):
        assert f'aria-label="Time range: {label}, ' in client.get(f"/audit/{asked}").content.decode()


def test_an_export_of_a_malformed_range_is_refused(aged: tuple[Client, int]) -> None:
    client, _ = aged
    before = AuditEntry.objects.count()
    answer = client.post("/audit/export/?from=yesterday", {"as": "jsonl", "reason": "review"})
    assert answer.status_code == 400
    assert AuditEntry.objects.filter(action="audit.export").count() == 0
    assert AuditEntry.objects.count() == before
