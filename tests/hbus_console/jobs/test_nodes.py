"""Nodes and leases are shown as they stand in the store, and a lease is taken away with a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client

from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, RunState, SlotKey
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.services.leases import release_lease, slot_store
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def page(signed_in: Callable[..., Client], make_job: MakeJob) -> Client:
    make_job("http", "https://1.1.1.1/")
    return signed_in()


def running(epoch: int = 1) -> JobRun:
    begun_us = SystemClock().now_ms() * 1_000
    times = {"decided_us": begun_us, "begun_us": begun_us, "changed_us": begun_us}
    return JobRun.objects.create(
        job="close-of-day", version=1, slot=1, state=RunState.RUNNING, owner="w#1", epoch=epoch, **times
    )


def test_nodes_say_what_they_know_and_what_they_cannot_decide(page: Client) -> None:
    detail = {"jobs": 12, "opened": 340, "trouble": "", "failing": {"close-of-day": "its schedule cannot be read"}}
    beat = NodeBeat(store.client(), settings.HBUS_PREFIX, name="vm:cron:0", role="cron", detail=lambda: detail)
    beat.beat()
    html = page.get("/jobs/nodes/").content.decode()
    assert "vm:cron:0" in html
    assert "its schedule cannot be read" in html
    assert '<td class="num hide-narrow">340</td>' in html
    assert "ms apart" in html
    assert "Nothing runs" in html


def test_markers_are_those_of_the_store(page: Client) -> None:
    slot = int(SystemClock().now_ms() / 1000) - 10
    JobRun.objects.create(
        job="close-of-day", version=1, slot=slot, state="done", node="n1", decided_us=1, changed_us=1, ended_us=1
    )
    assert "forgotten: its row alone keeps the slot" in page.get("/jobs/nodes/").content.decode()
    slot_store().claim(ClaimSlots((SlotKey("close-of-day", 1, slot),), "n1", 5.0))
    assert "claimed by who decided it" in page.get("/jobs/nodes/").content.decode()
    JobRun.objects.update(node="n2")
    assert "claimed by n1" in page.get("/jobs/nodes/").content.decode()


def test_leases_are_those_of_the_store(page: Client) -> None:
    held = running()
    slot_store().acquire(Acquire(held.pk, "w#1", 30, 0))
    html = page.get("/jobs/nodes/").content.decode()
    assert '<span class="badge ok">held</span>' in html
    JobRun.objects.filter(pk=held.pk).update(epoch=0)
    assert "another began it, under epoch 1" in page.get("/jobs/nodes/").content.decode()
    slot_store().take_away(held.pk)
    assert "no lease: it is lost unless that comes back" in page.get("/jobs/nodes/").content.decode()


def test_a_lease_is_taken_away_with_a_reason_and_a_trace(page: Client) -> None:
    run = running()
    slot_store().acquire(Acquire(run.pk, "w#1", 30, 0))
    page.post(f"/jobs/close-of-day/runs/{run.pk}/release/", {"reason": "its machine is gone"})
    assert slot_store().leases_held(LeasesHeld((run.pk,))) == set()
    entry = AuditEntry.objects.get(action="job.release")
    assert (entry.reason, entry.before) == ("its machine is gone", {"owner": "w#1", "epoch": 1})
    JobRun.objects.update(state=RunState.DONE)
    with pytest.raises(BadInput, match="nobody has a lease of it"):
        release_lease(SYSTEM, "close-of-day", run.pk, "why")
