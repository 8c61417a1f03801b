"""What the work of a run says at its end is kept as far as its column goes, and never changes how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection

from engine.core.redaction import REDACTED
from engine.cron.slots.steps import RunState
from engine.cron.work.call import SUMMARY_LIMIT, RunContext, WorkOutcome
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.permissions import Actor
from hbus_console.jobs.columns import REASON_LIMIT
from hbus_console.jobs.kinds.function import FunctionKind
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working.process import RunProcess
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "offered"),
]
NAME, SECRET = "close-of-day", "PINSECRET9"


@pytest.fixture
def run(make_job: MakeJob, admin_actor: Actor) -> Iterator[JobRun]:
    def works(context: RunContext, db_pass: str) -> str:
        """Say that it is done."""
        return "all is well"

    job_function("test.works")(works)
    make_job("function", "test.works", parameters={"db_pass": SECRET})
    yield trigger(admin_actor, NAME, Trigger(None, "a test")).run
    forget_functions("test.works")


def log_of(run: JobRun) -> str:
    return "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("s" * 9_000, "s" * (SUMMARY_LIMIT - 1) + "…"),
        ("s" * (SUMMARY_LIMIT - 4) + SECRET[:4], "s" * (SUMMARY_LIMIT - 4) + f"{REDACTED[:3]}…"),
        ("\0" * SUMMARY_LIMIT, ("\\x00" * SUMMARY_LIMIT)[: SUMMARY_LIMIT - 1] + "…"),
        ("s" * SUMMARY_LIMIT, "s" * SUMMARY_LIMIT),
    ],
    ids=["too long", "longer without its secret", "longer as it is spelt", "as long as may be"],
)
def test_what_work_says_is_cut_to_its_column_after_all_else(
    worker: RunProcess, run: JobRun, monkeypatch: pytest.MonkeyPatch, said: str, kept: str
) -> None:
    # A kind, or who answers it, says what it likes.
    monkeypatch.setattr(FunctionKind, "run", lambda *_: WorkOutcome(True, summary=said))
    assert worker.run(run.pk) is RunState.DONE
    run.refresh_from_db()
    assert run.summary == kept


@pytest.mark.parametrize("said", ["s" * 9_000, "s" * (REASON_LIMIT - 4) + SECRET], ids=["too long", "a secret"])
def test_so_is_why_it_failed(worker: RunProcess, run: JobRun, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr(FunctionKind, "run", lambda *_: WorkOutcome(False, said, again=False))
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert len(run.reason) == REASON_LIMIT
    assert run.reason[-1] == "…"
    assert "PIN" not in run.reason


@pytest.mark.parametrize("error", [OperationalError("server closed the connection"), DataError("too long")], ids=str)
def test_work_that_is_done_is_done_although_its_summary_cannot_be_kept(
    worker: RunProcess, run: JobRun, error: Exception
) -> None:
    def refuses(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE") and '"summary"' in sql.partition("WHERE")[0]:
            raise error
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuses):
        assert worker.run(run.pk) is RunState.DONE
    run.refresh_from_db()
    assert (run.state, run.summary) == (RunState.DONE, "")
    # What it said is not lost.
    assert "all is well" in log_of(run)
