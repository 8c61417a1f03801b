"""Rows that were booked before facts had bounds, and stamps of strangers: pages show what surrounds them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client

from hbus_console.evidence.freshness import Freshness
from hbus_console.evidence.models import Evidence, Notice
from hbus_console.messages.models import FlowRollup, FlowSample, LedgerEvent, LedgerMessage
from hbus_console.nodes.stamps import key
from hbus_console.traffic import flow
from hbus_console.wiring import store
from tests.hbus_console.messages.conftest import TOPIC
from tests.hbus_console.nodes.test_stamps import UNREADABLE, UNSPEAKABLE, stamp

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

MOST = 2**63 - 1


@pytest.fixture(params=[253_402_300_800_000, MOST, -MOST], ids=["the year 10000", "the last", "the first"])
def hostile(request: pytest.FixtureRequest, installation: None) -> None:
    at_ms, now_ms = request.param, time.time_ns() // 1_000_000
    LedgerMessage.objects.create(
        message_id="m1", topic=TOPIC, type=TOPIC, source="/s", key="k", correlation_id="c1", size=1, position="1-0",
        published_ms=at_ms, due_ms=at_ms,
    )  # fmt: skip
    LedgerMessage.objects.create(
        message_id="m2", topic=TOPIC, type=TOPIC, source="/s", key="k", correlation_id="c1", size=1, position="2-0",
        published_ms=now_ms, causation_id="m1",
    )  # fmt: skip
    for message_id in ("m1", "m2"):
        for kind in ("retried", "dead", "settled", "deduplicated", "delayed"):
            for at in (now_ms, at_ms):
                LedgerEvent.objects.create(
                    message_id=message_id, kind=kind, topic=TOPIC, subscription="billing", at_ms=at, due_ms=at_ms,
                    duration_us=5, attempt=1,
                )  # fmt: skip
    for at in (now_ms, at_ms):
        for _ in range(2):
            Notice.objects.create(kind="facts_dropped", at_ms=at, count=MOST)
            Notice.objects.create(kind="group_lost", at_ms=at, count=-MOST, topic=TOPIC, subscription="billing")
            Evidence.objects.create(kind="facts_dropped", at_ms=at, fields={"amount": MOST})
    for number in range(1, 4):
        at_ms = now_ms - now_ms % 300_000 - number * 300_000
        for rows in (FlowSample, FlowRollup):
            rows.objects.create(
                topic=TOPIC, subscription="billing", bucket_ms=at_ms, settled=1, failed=MOST, duration_us=MOST
            )
        recent_ms = now_ms - now_ms % 10_000 - number * 10_000
        FlowSample.objects.update_or_create(
            topic=TOPIC, subscription="billing", bucket_ms=recent_ms, defaults={"settled": 1, "duration_us": MOST}
        )


@pytest.mark.parametrize(
    "path",
    [
        "/", "/cluster/", "/api/v1/cluster", "/messages/", "/messages/?q=c1", "/messages/m1", "/messages/m2",
        "/messages/m2?tab=conversation", "/messages/m2?tab=key", "/messages/evidence/m1", "/api/v1/messages/m1",
        "/api/v1/messages/m2", f"/topics/{TOPIC}/", f"/api/v1/topics/{TOPIC}", f"/subscriptions/{TOPIC}/billing/",
        f"/api/v1/topics/{TOPIC}/log", "/api/v1/messages?key=c1", "/charts/flow/", "/charts/flow/?range=7d",
        "/api/v1/messages/m1/timeline", "/subscriptions/", "/topics/",
    ],
)  # fmt: skip
def test_no_page_breaks(sign_in: Callable[..., Client], hostile: None, path: str) -> None:
    answer = sign_in().get(path, follow=True)
    if answer.streaming:
        b"".join(answer)
    assert answer.status_code == 200


def test_sums_of_what_facts_claimed_stay_sums(hostile: None) -> None:
    now_ms = time.time_ns() // 1_000_000
    booked = Freshness.at(now_ms, now_ms)
    assert flow.rates(now_ms, ["*"], booked).subscriptions[TOPIC, "billing"].handler_us == MOST + 1
    for span_ms in (3_600_000, 7 * 86_400_000):
        found = flow.series(now_ms - span_ms, now_ms, ["*"], TOPIC, "billing")
        assert found.settled_total >= 3
        assert max(spent or 0 for spent in found.handler_ms) > 10**14


@pytest.mark.parametrize("path", ["/", "/cluster/", "/api/v1/cluster", f"/subscriptions/{TOPIC}/billing/"])
def test_no_stamp_breaks_a_page(sign_in: Callable[..., Client], installation: None, path: str) -> None:
    client = store.client()
    for name, raw in {**UNREADABLE, **{name: stamp(detail=detail) for name, detail in UNSPEAKABLE.items()}}.items():
        client.hset(key(settings.HBUS_PREFIX), name, raw)
    assert sign_in().get(path).status_code == 200
