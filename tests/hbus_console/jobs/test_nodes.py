"""Nodes and leases are shown as they stand in the store, and a lease is taken away with a trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import Settings

from engine.core.clock import SystemClock
from engine.core.errors import BadInput, Conflict, OutcomeUnknown
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, RunState, SlotKey
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.cluster import probes
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.services.leases import release_lease
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store
from hbus_console.wiring.cron import slot_store
from tests.engine.bus.transports.proxy import Proxy
from tests.hbus_console.jobs.conftest import MakeJob
from tests.installation import free_port
from tests.store_servers import until

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def page(signed_in: Callable[..., Client], make_job: MakeJob) -> Client:
    make_job("http", "https://1.1.1.1/")
    return signed_in()


@pytest.fixture
def lossy(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What lies between the console and the store."""
    port = redis_url.rpartition(":")[2].partition("/")[0]
    proxy = Proxy(int(port))
    store.close()
    monkeypatch.setattr(settings, "REDIS_URL", redis_url.replace(f":{port}", f":{proxy.port}"))
    # What counts answers must not meet the one that says that the script is not known yet.
    slot_store().take_away(0, 0)
    yield proxy
    store.close()
    proxy.close()


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
    assert '<td class="num from-600">340</td>' in html
    assert "ms apart" in html
    assert "Nothing runs" in html


def begun() -> JobRun:
    """One that a worker has the lease of."""
    run = running()
    # Long: how slow the machine is decides nothing here.
    assert slot_store().acquire(Acquire(run.pk, "w#1", 3_600, 0)) == run.epoch
    return run


def take_without_answer(run: JobRun, lossy: Proxy) -> None:
    # The store knows the script from then on: what is lost is what it did.
    slot_store().take_away(0, 1)
    lossy.lose_in = 0
    with pytest.raises(OutcomeUnknown):
        release_lease(SYSTEM, "close-of-day", run.pk, "its machine is gone")


def try_again(run: JobRun) -> None:
    """As another worker does after the loss of its lease."""
    slot_store().acquire(Acquire(run.pk, "w#2", 30, 1))
    JobRun.objects.update(owner="w#2", epoch=2)


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
    slot_store().take_away(held.pk, 1)
    assert "no lease: it is lost unless that comes back" in page.get("/jobs/nodes/").content.decode()


def test_a_lease_is_taken_away_with_a_reason_and_a_trace(page: Client) -> None:
    run = begun()
    page.post(f"/jobs/close-of-day/runs/{run.pk}/release/", {"reason": "its machine is gone"})
    assert slot_store().leases_held(LeasesHeld((run.pk,))) == set()
    entry = AuditEntry.objects.get(action="job.release")
    assert (entry.reason, entry.before) == ("its machine is gone", {"owner": "w#1", "epoch": 1})
    JobRun.objects.update(state=RunState.DONE)
    with pytest.raises(BadInput, match="nobody has a lease of it"):
        release_lease(SYSTEM, "close-of-day", run.pk, "why")


def test_a_lease_that_was_taken_without_an_answer_is_found_taken(make_job: MakeJob, lossy: Proxy) -> None:
    make_job("http", "https://1.1.1.1/")
    run = begun()
    take_without_answer(run, lossy)
    # The answer is lost at once, and the store does it in its own time.
    until("the lease is gone", lambda: slot_store().leases_held(LeasesHeld((run.pk,))) == set())
    JobRun.objects.update(state=RunState.LOST)
    release_lease(SYSTEM, "close-of-day", run.pk, "its machine is gone")
    entries = AuditEntry.objects.filter(action__startswith="job.release").order_by("seq")
    assert [each.action for each in entries] == ["job.release", "job.release.unknown", "job.release.done"]
    with pytest.raises(BadInput, match="nobody has a lease of it"):
        release_lease(SYSTEM, "close-of-day", run.pk, "once more")


def test_a_decision_about_one_lease_takes_no_other_of_the_run(make_job: MakeJob, lossy: Proxy) -> None:
    make_job("http", "https://1.1.1.1/")
    run = begun()
    take_without_answer(run, lossy)
    try_again(run)
    release_lease(SYSTEM, "close-of-day", run.pk, "its machine is gone")
    assert slot_store().leases_held(LeasesHeld((run.pk,))) == {run.pk}
    assert AuditEntry.objects.latest("seq").action == "job.release.done"


def test_a_lease_is_asked_for_again_under_the_key_whose_answer_was_lost(page: Client, lossy: Proxy) -> None:
    run = begun()
    marks = {"HBUS-Form": "1", "Idempotency-Key": "key-1", "X-Correlation-ID": "form-key-1"}
    path = f"/jobs/close-of-day/runs/{run.pk}/release/"

    def send() -> int:
        return page.post(path, {"reason": "its machine is gone"}, headers=marks).status_code

    def became() -> str:
        asked = {"key": "key-1", "path": path}
        return str(page.post("/audit/posted/", asked, headers={"HBUS-Form": "1"}).json()["state"])

    lossy.lose_in = 0
    assert send() == 504
    assert became() == "unknown"
    JobRun.objects.update(state=RunState.LOST)
    assert send() == 204
    assert became() == "done"


@pytest.fixture
def release(page: Client) -> Callable[[JobRun, str], tuple[int, str]]:
    """``release(run, key)``: asks for its lease to be taken away under that key; its status and text."""

    def send(run: JobRun, key: str) -> tuple[int, str]:
        marks = {"HBUS-Form": "1", "Idempotency-Key": key}
        path, form = f"/jobs/close-of-day/runs/{run.pk}/release/", {"reason": "its machine is gone"}
        answer = page.post(path, form, headers=marks)
        return answer.status_code, answer.content.decode()

    return send


@pytest.mark.parametrize("by", ["another key", "somebody else"])
def test_a_repeat_takes_no_lease_but_the_one_that_its_first_try_was_about(
    release: Callable[[JobRun, str], tuple[int, str]], lossy: Proxy, by: str
) -> None:
    run = begun()
    lossy.lose_in = 0
    assert release(run, "key-1")[0] == 504
    try_again(run)
    if by == "another key":
        assert release(run, "key-2")[0] == 204
    else:
        release_lease(SYSTEM, "close-of-day", run.pk, "that one, too")
        slot_store().acquire(Acquire(run.pk, "w#3", 30, 2))
        JobRun.objects.update(owner="w#3", epoch=3)
    assert release(run, "key-1")[0] == 204
    assert slot_store().leases_held(LeasesHeld((run.pk,))) == {run.pk}
    assert AuditEntry.objects.latest("seq").action == "job.release.done"
    assert AuditEntry.objects.filter(action="job.release.done").count() == 1


def test_a_repeat_is_refused_where_somebody_has_decided_about_the_same_lease_since(
    release: Callable[[JobRun, str], tuple[int, str]], lossy: Proxy
) -> None:
    run = begun()
    lossy.lose_in = 0
    assert release(run, "key-1")[0] == 504
    # As if it had not been done
    store.client().set(slot_store().lease_key(run.pk), "w#1 1", px=30_000)
    release_lease(SYSTEM, "close-of-day", run.pk, "me too")
    status, text = release(run, "key-1")
    assert status == 409
    assert "has decided about the same lease since (taken away, at " in text
    assert AuditEntry.objects.latest("seq").action == "job.release"


def test_a_lease_that_another_worker_has_by_now_is_left_to_it(page: Client) -> None:
    run = begun()
    # The worker was lost, and the next has the lease, and has not told the database yet.
    slot_store().take_away(run.pk, 1)
    slot_store().acquire(Acquire(run.pk, "w#2", 30, 1))
    with pytest.raises(Conflict, match="another lease than the one you saw: nothing was taken"):
        release_lease(SYSTEM, "close-of-day", run.pk, "its machine is gone")
    assert slot_store().leases((run.pk,))[run.pk].owner == "w#2"
    assert AuditEntry.objects.latest("seq").action == "job.release.failed"


def test_the_keys_that_the_page_of_a_run_shows_are_those_that_the_store_has(page: Client) -> None:
    run = begun()
    slot_store().claim(ClaimSlots((SlotKey(run.job, run.version, run.slot),), "n1", 5.0))
    html = page.get(f"/jobs/close-of-day/runs/{run.pk}/").content.decode()
    shown = re.findall(rf"{settings.HBUS_PREFIX}:{{(?:run|cron):[^<\s]+", html)
    assert len(shown) == 2
    assert [key for key in shown if not store.client().exists(key)] == []


@pytest.fixture
def away(page: Client, settings: Settings) -> Iterator[None]:
    """From now on the store does not answer."""
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    for forget in (store.close, probes.client.cache_clear):
        forget()
    yield
    for forget in (store.close, probes.client.cache_clear):
        forget()


def test_what_could_not_be_read_is_not_told_as_what_is_not_there(page: Client, away: None) -> None:
    run = running()
    JobRun.objects.create(
        job="close-of-day", version=1, slot=7, state="done", node="n1", decided_us=1, changed_us=1, ended_us=1
    )
    html = page.get("/jobs/nodes/").content.decode()
    assert "The nodes could not be read" in html
    for untrue in ("No node decides slots", "Nothing runs", "No slot was decided yet", "it is lost", "forgotten"):
        assert untrue not in html
    # What the database knows is told.
    assert f"/jobs/close-of-day/runs/{run.pk}/" in html
    # Two markers and a lease.
    assert html.count('<span class="badge warn">the store could not be read</span>') == 3
    assert "nobody" not in html


def test_what_the_database_knows_there_is_none_of_is_said_without_the_store(page: Client, away: None) -> None:
    html = page.get("/jobs/nodes/").content.decode()
    assert "Nothing runs" in html
    assert "No slot was decided yet" in html
