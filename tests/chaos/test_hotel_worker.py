"""The consumer worker as a real process: what it declares, obeys, survives and leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import redis

from hbus_console.state import ROOT
from tests.chaos.rig import Rig

pytestmark = pytest.mark.chaos

SLOW = "slow.work/tortoise"


@pytest.fixture
def worker(rig: Rig) -> Rig:
    """A worker with a slow handler, whose topic exists."""
    rig.environment["HBUS_APPS"] = "examples.hotel,tests.chaos.slow"
    rig.python(
        """
from hbus_console.access.permissions import SYSTEM
from hbus_console.teams.services import TeamDraft, create_team
from hbus_console.topics.services import TopicDraft, create_topic
create_team(SYSTEM, TeamDraft("Slow", "#slow"))
create_topic(SYSTEM, TopicDraft(name="slow.work", owner="Slow"))
print("null")
"""
    )
    rig.start("consumer")
    rig.await_(lambda: rig.consumers()[SLOW]["state"] == "running", what="the declared subscription running")
    return rig


def publish(rig: Rig, *numbers: int) -> None:
    rig.python(
        f"""
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import store
for n in {list(numbers)}:
    shared_producer().publish("slow.work", {{"n": n}})
store.close()
print("null")
"""
    )


def noted(rig: Rig, what: str) -> list[str]:
    path = rig.state / "slow.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(line.removeprefix(f"{what} ") for line in lines if line.startswith(what))


def first_attempts(count: int) -> list[str]:
    return sorted(f"{number} attempt 1" for number in range(count))


def test_declared_handlers_run_and_follow_changes_and_remote_control(worker: Rig) -> None:
    it_runs_what_code_declares_and_says_what_it_cannot_run(worker)
    it_changes_threads_without_a_restart(worker)
    it_replaces_a_consumer_whose_policy_changed(worker)
    it_pauses_drains_and_resumes_from_afar_and_audits_it(worker)
    it_leaves_tasks_in_their_queues(worker)


def it_runs_what_code_declares_and_says_what_it_cannot_run(worker: Rig) -> None:
    row = worker.python(
        """
import json
from hbus_console.subscriptions.models import Subscription
print(json.dumps(Subscription.objects.values("handler_name", "lease_s", "concurrency").get(group="tortoise")))
"""
    )
    assert row == {"handler_name": "tests.chaos.slow.handlers:work", "lease_s": 5, "concurrency": 2}
    report = json.loads(worker.manage("consumers", "status", "--json"))
    (one,) = report.values()
    assert {"topic": "booking.created", "group": "availability", "why": "its topic does not exist yet"} in one["idle"]


def test_warm_shutdown_finishes_what_is_in_hand_and_hands_back_the_rest(worker: Rig) -> None:
    publish(worker, *range(40))
    before = worker.await_(lambda: noted(worker, "begin"), what="messages in hand")
    code, took_s = worker.stop("consumer")
    begun = noted(worker, "begin")
    # Then every message it had begun it has ended, within the grace, and its node has left in good order
    assert code == 0, worker.log("consumer")
    assert took_s < 5
    assert noted(worker, "end") == begun
    # It took no more than one each of its two threads might have taken while the signal was on its way
    assert len(begun) <= len(before) + 2
    assert "consumer-0" not in worker.nodes()
    # And the rest is there for the next one at once, without having counted as attempts
    worker.start("consumer")
    worker.await_(lambda: len(noted(worker, "end")) == 40, what="all ended")
    assert noted(worker, "end") == noted(worker, "begin") == first_attempts(40)


def test_the_loss_and_return_of_store_and_broker_heals_in_the_running_process(worker: Rig) -> None:
    publish(worker, 0)
    worker.await_(lambda: noted(worker, "end") == first_attempts(1), what="the first message handled")
    pid = worker.nodes()["consumer-0"].pid
    worker.store.kill()
    worker.await_(lambda: "store_lost" in worker.log("consumer") or "lost its store" in worker.log("consumer"))
    worker.store.start()
    publish(worker, 1, 2)
    # Consumption resumes, the loops are stamped again, and remote control answers again: all in the same process
    worker.await_(lambda: noted(worker, "end") == first_attempts(3), what="consumption resumed")
    worker.await_(lambda: worker.nodes()["consumer-0"].pid == pid, what="the stamp")
    worker.await_(
        lambda: json.loads(worker.manage("consumers", "status", "--json", codes=(0, 1))), 60, "remote control answering"
    )
    code, took_s = worker.stop("consumer")
    assert (code, took_s < 6) == (0, True)


def test_without_its_store_a_worker_still_ends_when_told(worker: Rig) -> None:
    worker.store.kill()
    worker.await_(lambda: "lost its store" in worker.log("consumer"), what="the loss noticed")
    _, took_s = worker.stop("consumer")
    assert took_s < 15


def it_changes_threads_without_a_restart(worker: Rig) -> None:
    worker.python(
        """
from hbus_console.access.permissions import SYSTEM
from hbus_console.subscriptions import services
services.change_subscription(SYSTEM, "slow.work", "tortoise", {"concurrency": 3})
print("null")
"""
    )
    worker.await_(lambda: worker.consumers()[SLOW]["concurrency"] == 3, what="three threads")
    assert worker.log("consumer").count("subscription started") == 1
    assert "0 of 3 threads busy" in worker.manage("consumers", "status")


def it_replaces_a_consumer_whose_policy_changed(worker: Rig) -> None:
    worker.python(
        """
from hbus_console.access.permissions import SYSTEM
from hbus_console.subscriptions import services
services.change_subscription(SYSTEM, "slow.work", "tortoise", {"max_attempts": 4})
print("null")
"""
    )
    worker.await_(lambda: worker.log("consumer").count("subscription started") == 2, what="the new consumer")
    assert worker.log("consumer").count("subscription stopped") == 1


def it_pauses_drains_and_resumes_from_afar_and_audits_it(worker: Rig) -> None:
    worker.manage("consumers", "pause", codes=(2,))
    worker.manage("consumers", "status", "--worker", "nobody@nowhere", codes=(1,))
    paused = worker.manage("consumers", "pause", "--group", "tortoise", "--reason", "looking at it")
    assert "paused tortoise on slow.work" in paused
    worker.await_(lambda: worker.consumers()[SLOW]["state"] == "paused", what="pause")
    publish(worker, 0)
    worker.manage("consumers", "resume")
    worker.await_(lambda: noted(worker, "end") == first_attempts(1), what="the message after the resume")
    publish(worker, 1)
    worker.await_(lambda: "1 attempt 1" in noted(worker, "begin"), what="a message in hand")
    # The command returns once what was in hand has ended
    assert "Drained: " in worker.manage("consumers", "drain", "--topic", "slow.work", "--reason", "emptying this host")
    assert noted(worker, "end") == first_attempts(2)
    worker.await_(lambda: SLOW not in worker.consumers(), what="drain")
    assert "tortoise on slow.work: not running, drained on this worker" in worker.manage("consumers", "status")
    worker.manage("consumers", "resume", "--group", "tortoise")
    worker.await_(lambda: worker.consumers()[SLOW]["state"] == "running", what="resume")
    acts = worker.python(
        """
import json
from hbus_console.audit.models import AuditEntry
print(json.dumps(list(AuditEntry.objects.filter(action__startswith="worker.").values_list("action", "reason"))))
"""
    )
    assert acts == [
        ["worker.resume", ""],
        ["worker.drain", "emptying this host"],
        ["worker.resume", ""],
        ["worker.pause", "looking at it"],
    ]


def it_leaves_tasks_in_their_queues(worker: Rig) -> None:
    """They are for workers of their own; one that took a task that it does not know would throw it away."""
    worker.python(
        """
from hbus_console.consumers.celery_app import app
for _ in range(6):
    app.send_task("jobs.run")
print("null")
"""
    )
    # Its loop has turned since: it answers
    worker.manage("consumers", "status")
    assert "unregistered task" not in worker.log("consumer")
    with redis.Redis.from_url(worker.store.url) as store:
        assert store.llen(f"{worker.prefix}:celery:celery") == 6, store.keys(f"{worker.prefix}:celery:*")


def test_a_worker_that_would_fork_is_refused(rig: Rig) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "hbus_console.celery", "worker", "--pool", "prefork"],
        cwd=ROOT,
        env=rig.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode != 0
    assert "must not fork" in ended.stderr


def test_a_worker_whose_handlers_cannot_be_loaded_ends_with_an_error(rig: Rig) -> None:
    rig.environment["HBUS_APPS"] = "tests.chaos.broken"
    process = rig.start("consumer")
    assert process.wait(60) != 0
    assert "no handler today" in rig.log("consumer")
