"""Whatever its work says at its end, a run ends as it did: with NUL, too, which PostgreSQL takes in no text."""

from __future__ import annotations

import pytest

from engine.cron.slots.steps import RunState
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.permissions import Actor
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working.process import RunProcess
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "offered"),
]


def returns_nul() -> str:
    """Done, with a text that PostgreSQL does not take."""
    return "ok a\0b"


def raises_nul() -> None:
    """Fails likewise."""
    raise ValueError("no rate for a\0b")


def test_what_is_done_is_done_and_what_failed_says_why(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    job_function("test.returns-nul")(returns_nul)
    job_function("test.raises-nul")(raises_nul)
    make_job("function", "test.returns-nul")
    run = trigger(admin_actor, "close-of-day", Trigger(None, "a test")).run
    assert worker.run(run.pk) is RunState.DONE
    run.refresh_from_db()
    assert (run.state, run.reason, run.summary) == ("done", "", "ok a\\x00b")
    make_job("function", "test.raises-nul", "other")
    failed = trigger(admin_actor, "other", Trigger(None, "a test")).run
    assert worker.run(failed.pk) is RunState.FAILED
    forget_functions("test.returns-nul", "test.raises-nul")
    failed.refresh_from_db()
    assert (failed.state, failed.reason) == ("failed", "ValueError: no rate for a\\x00b")
