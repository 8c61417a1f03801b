"""The stack traces of failed attempts: kept once, shown under each attempt that has one, gone with the evidence."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock
from engine.core.stack_text import STACK_BYTES
from hbus_console.evidence.booking import Booking
from hbus_console.messages import services
from hbus_console.messages.models import LedgerEvent, LedgerMessage, LedgerStack
from hbus_console.messages.retention import STACKS_LATE_MS, LedgerRetention
from hbus_console.topics.models import Topic
from tests.hbus_console.messages.conftest import AT, TOPIC, message, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SOURCE = "/hotels/reservations-api"
ONE, OTHER = "0123456789abcdef", "fedcba9876543210"
WAY = '  File "hotel/rates.py", line 12, in price\n    raise KeyError(<room>)'


def failed(kind: str, after_ms: int, attempt: int, stack_id: str = ONE, stack: str = "", *, of: str = "m1") -> Fact:
    return Fact(
        kind, AT + after_ms, TOPIC, "billing", of, attempt=attempt, error="KeyError: 7", fingerprint="f",
        stack_id=stack_id, stack=stack, source=SOURCE,
    )  # fmt: skip


def book(*facts: Fact, each: bool = True) -> None:
    rows = Booking(each)
    rows.add(batches(facts))
    rows.write()


@pytest.fixture
def world() -> None:
    Topic.objects.create(name=TOPIC)
    message("m1")
    book(
        failed("retried", 10, 1, stack=WAY),
        failed("retried", 20, 2),
        failed("retried", 30, 3, OTHER, "  File \"hotel/rates.py\", line 99, in late\x00"),
        failed("dead", 40, 4),
        Fact("settled", AT + 5, TOPIC, "audit", "m1", attempt=1, source=SOURCE),
        failed("retried", 50, 1, stack=WAY, of="m2"),
    )  # fmt: skip


@pytest.mark.usefixtures("world")
def test_each_failed_attempt_has_its_own_and_it_is_kept_once() -> None:
    told = services.timeline(person("viewer"), "m1")
    found = [(moment.before, moment.stack.partition("\n")[0][-8:]) for moment in told if moment.stack]
    assert found == [
        ("Attempt 1 failed in", "in price"),
        ("Attempt 2 failed in", "in price"),
        ("Attempt 3 failed in", " in late"),
        ("Dead in", "in price"),
    ]
    assert dict(LedgerStack.objects.values_list("stack_id", "at_ms")) == {ONE: AT + 50, OTHER: AT + 30}
    assert not LedgerEvent.objects.get(kind="settled").stack_id


@pytest.mark.usefixtures("world")
def test_the_page_shows_it_once_folded_and_leads_there(sign_in: Callable[..., Client]) -> None:
    page = sign_in("viewer").get("/messages/m1").content.decode()
    assert page.count('<details class="stack">') == 2
    assert page.count("raise KeyError(&lt;room&gt;)</pre>") == 1
    assert page.count("The same stack trace</a>") == 2
    first = page.index('<details class="stack">')
    (number,) = {part.partition('"')[0] for part in page.split('href="#moment-')[1:]}
    assert page.index(f'id="moment-{number}"') < first < page.index(f'id="moment-{int(number) + 1}"')


@pytest.mark.usefixtures("world")
def test_the_api_and_the_export_have_it(sign_in: Callable[..., Client]) -> None:
    client = sign_in()
    export = json.loads(client.get(f"/messages/evidence/m1?topic={TOPIC}").content)
    schema = client.get("/api/v1/schema?format=json").content.decode()
    for timeline in (export["timeline"], client.get("/api/v1/messages/m1/timeline").json()["results"]):
        assert [moment["stack"] for moment in timeline].count(WAY) == 3
    assert '"stack"' in schema


def test_what_is_not_a_stack_trace_of_ours_is_cut_and_a_ledger_that_is_off_keeps_none() -> None:
    book(failed("dead", 1, 1, ONE * 9, "é" * STACK_BYTES * 2), failed("dead", 1, 1, "", WAY))
    (kept,) = LedgerStack.objects.all()
    assert (kept.stack_id, len(kept.text)) == (ONE, STACK_BYTES)
    LedgerStack.objects.all().delete()
    book(failed("dead", 1, 1, stack=WAY), each=False)
    assert not LedgerStack.objects.exists()


@pytest.mark.usefixtures("world")
def test_it_goes_when_no_attempt_that_is_kept_can_have_it() -> None:
    LedgerStack.objects.filter(stack_id=OTHER).update(at_ms=AT - STACKS_LATE_MS - 1)
    LedgerRetention(1, clock=ManualClock(AT)).tick()
    assert [stack.stack_id for stack in LedgerStack.objects.all()] == [ONE]
    LedgerMessage.objects.update(published_ms=AT + 2 * STACKS_LATE_MS)
    LedgerRetention(1, clock=ManualClock(AT)).tick()
    assert not LedgerStack.objects.exists()
