"""A worker's process does a run as its version says, by the rights that its account has now, and keeps its log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from pytest_django import Settings

from engine.core.clock import ManualClock
from engine.core.facts import MemoryFacts
from engine.core.store import open_client
from engine.cron import fact_kinds
from engine.cron.facts import RunFields
from engine.cron.slots.steps import RunState
from engine.cron.slots.store import STORE_TIMEOUT_S
from engine.cron.subjects import job_subject
from engine.cron.work.call import RunContext, Stopped
from engine.cron.work.dead_man import dead_man
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.acts import Role
from hbus_console.access.command_line import command_line_actor
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.rights import actor_named, identity_of, words_of_identity
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working import process
from hbus_console.jobs.working import work as working
from hbus_console.jobs.working.process import HEEDS_WITHIN_S, RunProcess
from hbus_console.wiring import fact_log, store
from hbus_console.wiring.cron import slot_store
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "offered"),
]


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    job_function("test.greet")(greet)
    job_function("test.waits")(waits)
    job_function("test.fails")(fails)
    yield
    forget_functions("test.greet", "test.waits", "test.fails")


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    """That of a worker whose work moves it: the function ``test.takes`` moves it so far."""
    made = ManualClock()

    def takes(context: RunContext, seconds: float) -> None:
        """Time passes."""
        made.advance(seconds)

    job_function("test.takes")(takes)
    yield made
    forget_functions("test.takes")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> MemoryFacts:
    """What the worker tells."""
    made = MemoryFacts()
    monkeypatch.setattr(fact_log, "emitter", lambda: made)
    return made


@pytest.fixture
def timed(clock: ManualClock, facts: MemoryFacts, db: None) -> Iterator[RunProcess]:
    """A worker on that clock."""
    made = RunProcess(clock)
    yield made
    made.close()


def greet(context: RunContext, who: str = "nobody") -> str:
    """Say hello."""
    print(f"hello {who}")
    return f"greeted {who} in attempt {context.call.attempt}"


def waits(context: RunContext) -> None:
    """Until it is stopped."""
    context.wait(60)


def fails(context: RunContext) -> None:
    """Never done."""
    raise ValueError("no rate for room Z")


def triggered(by: Actor, **parameters: str) -> JobRun:
    return trigger(by, "close-of-day", Trigger(parameters or None, "a test")).run


def log_of(run: JobRun) -> str:
    return "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))


def test_a_function_is_given_its_parameters_and_leaves_a_log_and_a_summary(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    make_job("function", "test.greet")
    run = triggered(admin_actor, who="HB-1")
    assert worker.run(run.pk) is RunState.DONE
    run.refresh_from_db()
    assert (run.state, run.summary, run.epoch) == ("done", "greeted HB-1 in attempt 1", 1)
    assert log_of(run) == "hello HB-1\n"
    assert list(process.spool_folder().glob(f"{run.pk}-*")) == []
    # What comes twice is not done twice.
    assert worker.run(run.pk) is None
    assert log_of(run) == "hello HB-1\n"


def test_it_does_what_its_version_says_although_the_job_was_changed_since(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    make_job("function", "test.greet", parameters={"who": "the first"})
    run = trigger(admin_actor, "close-of-day", Trigger(reason="a test")).run
    JobRun.objects.filter(pk=run.pk).update(parameters=None)
    change_job(admin_actor, "close-of-day", {"parameters": {"who": "the second"}})
    worker.run(run.pk)
    assert log_of(run) == "hello the first\n"


def test_a_run_that_takes_too_long_is_stopped_and_says_so(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    make_job("function", "test.waits", timeout_s=1)
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason == "it took longer than 1 s"


def test_work_that_swallows_its_stop_is_not_done(
    timed: RunProcess, clock: ManualClock, make_job: MakeJob, admin_actor: Actor
) -> None:
    def shrugs(context: RunContext) -> str:
        """Go on in spite of it."""
        clock.advance(2)
        try:
            context.wait(60)
        except Stopped:
            return "all is well"
        return "it was not stopped"

    job_function("test.shrugs")(shrugs)
    make_job("function", "test.shrugs", timeout_s=1)
    run = triggered(admin_actor)
    assert timed.run(run.pk) is RunState.FAILED
    forget_functions("test.shrugs")
    run.refresh_from_db()
    assert (run.reason, run.summary) == ("it took longer than 1 s", "")


def test_the_process_of_work_that_does_not_listen_is_ended(
    timed: RunProcess,
    clock: ManualClock,
    make_job: MakeJob,
    admin_actor: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[tuple[int, float]] = []
    over = threading.Event()

    def end_process(code: int) -> None:
        """In its place: this process is the test's."""
        ended.append((code, clock.monotonic()))
        over.set()

    def is_deaf(context: RunContext) -> None:
        """As good as for ever, as far as its process lives."""
        for _ in range(10_000):
            clock.advance(0.5)
            # Whoever waits for that moment takes its turn.
            if over.wait(0.001):
                break

    monkeypatch.setattr("os._exit", end_process)
    job_function("test.deaf")(is_deaf)
    make_job("function", "test.deaf", timeout_s=1)
    run = triggered(admin_actor)
    timed.run(run.pk)
    forget_functions("test.deaf")
    ((code, at_s),) = ended
    assert code == 1
    assert at_s > 1 + HEEDS_WITHIN_S
    run.refresh_from_db()
    reason = "it took longer than 1 s; it did not stop within 10 s, and its process was ended"
    assert (run.state, run.reason) == ("failed", reason)
    assert f"hbus: {reason}\n" in log_of(run)


def test_how_a_run_ended_and_how_long_it_took_is_told(
    timed: RunProcess, facts: MemoryFacts, make_job: MakeJob, admin_actor: Actor
) -> None:
    make_job("function", "test.takes", parameters={"seconds": 2.5})
    assert timed.run(triggered(admin_actor).pk) is RunState.DONE
    assert facts.kinds() == ["run_begun", "run_done"]
    begun, done = facts.batches
    assert done.fields == RunFields(duration_us=2_500_000)
    assert done.subject == job_subject("close-of-day")
    assert begun.node == done.node == f"{store.node_name()}:{os.getpid()}"
    make_job("function", "test.fails", "other")
    assert timed.run(trigger(admin_actor, "other", Trigger(None, "a test")).run.pk) is RunState.FAILED
    assert facts.kinds()[2:] == ["run_begun", "run_failed"]


def test_how_late_it_began_is_told_of_its_first_attempt_alone(
    timed: RunProcess, facts: MemoryFacts, make_job: MakeJob, admin_actor: Actor
) -> None:
    make_job("function", "test.takes", parameters={"seconds": 2.5})
    late = []
    for attempt in (1, 2):
        run = triggered(admin_actor) if attempt == 1 else trigger(admin_actor, "close-of-day", Trigger(None, "x")).run
        JobRun.objects.filter(pk=run.pk).update(attempt=attempt, slot=run.slot - 3_600)
        assert timed.run(run.pk) is RunState.DONE
        begun = facts.batches[-2]
        assert isinstance(begun.fields, RunFields)
        late.append(begun.fields.late_us)
    assert late[0] != 0
    # A zero is no sample of it.
    assert late[1] == 0
    (kind,) = (each for each in fact_kinds.KINDS if each.name == "run_begun")
    assert kind.timer is not None
    assert kind.timer.without_zeros


def test_each_attempt_that_failed_leaves_its_reason_in_the_log(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    settings.HBUS_JOB_COMMANDS = ("sh",)
    make_job("command", "sh -c 'exit $HBUS_ATTEMPT'", attempts=2, after_failure="retry", backoff_s=0)
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.CLAIMED
    assert worker.run(run.pk) is RunState.FAILED
    assert log_of(run) == ("hbus: attempt 1: it ended with exit code 1\nhbus: attempt 2: it ended with exit code 2\n")


def test_a_program_writes_its_log_itself(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    settings.HBUS_JOB_COMMANDS = (sys.executable,)
    make_job("command", f"{sys.executable} -c 'import os; print(os.environ[\"HBUS_CORRELATION\"])'")
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.DONE
    assert log_of(run) == f"{run.correlation_id}\n"


def test_a_program_that_is_allowed_no_more_does_not_run(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    settings.HBUS_JOB_COMMANDS = ("true",)
    make_job("command", "true")
    run = triggered(admin_actor)
    settings.HBUS_JOB_COMMANDS = ()
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason == "true is no program that jobs may run here."


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [("http", "https://1.1.1.1/close", "https://1.1.1.1/other"), ("function", "test.waits", "test.greet")],
)
def test_it_acts_by_the_rights_that_its_account_has_now(
    worker: RunProcess, make_job: MakeJob, kind: str, before: str, after: str
) -> None:
    user = User.objects.create_user("anna", password="x")
    grant = user.grants.create(role=Role.EDITOR.value, scope="*")
    anna = actor_of(user)
    governor = User.objects.create_user("gerd", password="x")
    governor.grants.create(role=Role.GOVERNOR.value, scope="*")
    make_job(kind, before)
    change_job(anna, "close-of-day", {"target": after}, "moved")
    run = triggered(anna)
    grant.delete()
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason == "anna may not make and edit jobs on close-of-day."
    user.is_active = False
    user.save()
    again = triggered(actor_of(governor))
    worker.run(again.pk)
    again.refresh_from_db()
    assert again.reason == "anna may do nothing any more, and the job acts by their rights."


def test_a_function_is_called_by_the_right_that_the_account_has_now(worker: RunProcess, make_job: MakeJob) -> None:
    user = User.objects.create_user("anna", password="x")
    user.grants.create(role=Role.EDITOR.value, scope="alien.*")
    grant = user.grants.create(role=Role.EDITOR.value, scope="test.*")
    make_job("function", "test.greet", "alien.close", by=actor_of(user))
    runs = [trigger(SYSTEM, "alien.close", Trigger(None, "why")).run for _ in range(2)]
    assert worker.run(runs[0].pk) is RunState.DONE
    grant.delete()
    assert worker.run(runs[1].pk) is RunState.FAILED
    runs[1].refresh_from_db()
    assert runs[1].reason == "anna may not make and edit jobs on test.greet."


@pytest.mark.parametrize("anew", [False, True], ids=["gone", "made anew since"])
def test_a_run_of_a_job_that_is_gone_fails_with_the_reason(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, anew: bool
) -> None:
    tried_again = {"attempts": 3, "after_failure": "retry", "backoff_s": 0}
    job = make_job("function", "test.greet", **tried_again)
    run = triggered(admin_actor)
    job.delete()
    if anew:
        assert make_job("function", "test.greet", **tried_again).version > run.version
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason == "the job was deleted before it began"


def test_a_lost_lease_stops_the_work(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    make_job("function", "test.waits", lease_s=3)
    run = triggered(admin_actor)
    key = slot_store().lease_key(run.pk)

    def steal() -> None:
        client = open_client(settings.REDIS_URL)
        while not client.exists(key):
            pass
        # Another has it, as after a partition.
        client.set(key, "another 99", px=60_000)
        client.close()

    thief = threading.Thread(target=steal)
    thief.start()
    assert worker.run(run.pk) is RunState.LOST
    thief.join()
    run.refresh_from_db()
    assert (run.state, run.reason) == ("lost lease", "its lease was lost while it ran")


def test_work_that_is_to_stop_before_it_begins_does_not_begin(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the database takes longer to say what the job does than a lease lasts."""
    make_job("function", "test.greet", lease_s=3)
    run = triggered(admin_actor)
    client, read, waited = open_client(settings.REDIS_URL), working.actor_named, threading.Event()

    def late(acts_as: str) -> Actor:
        client.delete(slot_store().lease_key(run.pk))
        waited.wait(2)
        return read(acts_as)

    monkeypatch.setattr(working, "actor_named", late)
    assert worker.run(run.pk) is RunState.LOST
    assert "hello" not in log_of(run)
    client.close()


def test_what_the_machines_own_people_make_acts_as_hbus_itself() -> None:
    identity = identity_of(command_line_actor())
    assert (actor_named(identity), words_of_identity(identity)) == (SYSTEM, "hbus itself")


def test_a_store_that_is_silent_holds_a_renewal_up_for_less_than_a_lease(worker: RunProcess) -> None:
    patience_s = worker._client.connection_pool.connection_kwargs["socket_timeout"]
    assert patience_s == STORE_TIMEOUT_S


def test_while_it_works_its_process_ends_with_its_lease_unless_it_renews_it(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    job_function("test.looks")(looks)
    make_job("function", "test.looks", lease_s=30)
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.DONE
    run.refresh_from_db()
    assert 30 < float(run.summary) <= 30 + HEEDS_WITHIN_S
    assert dead_man().ends_in_s == inf
    forget_functions("test.looks")


def begins(context: RunContext) -> float:
    """For how many seconds a program may go on of which its worker says nothing any more."""
    return context.last_call.over - time.monotonic()


def test_and_what_it_has_begun_besides_goes_on_no_longer_than_its_lease(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    job_function("test.begins")(begins)
    make_job("function", "test.begins", lease_s=30)
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.DONE
    forget_functions("test.begins")
    run.refresh_from_db()
    assert 0 < float(run.summary) <= 30


def looks() -> float:
    """After how many seconds its process would end."""
    return dead_man().ends_in_s


_TOLD_TO_END = """
import django, os, signal, time
django.setup()
from hbus_console.jobs.working.process import run_process
run_process()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
except SystemExit:
    print("what runs was told")
"""


def test_a_process_that_is_told_to_end_dies_before_its_work_could_take_it_for_its_own_end(
    redis_url: str, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "hbus_console.settings",
        "REDIS_URL": redis_url,
        "STATE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _TOLD_TO_END], env=environment, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b""), done.stderr
