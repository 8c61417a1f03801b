"""What a run's Spark application told of its progress: kept under its epoch, shown on its page and by the API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml
from django.db import OperationalError
from django.test import Client

from engine.core.clock import ManualClock
from engine.cron.slots.steps import RunState
from engine.cron.work.call import RunCall
from engine.cron.work.spark.progress import SparkJobs, SparkProgress, SparkQuery, SparkStage, SparkTasks
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs import live
from hbus_console.jobs.log_pieces import append_piece
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.progress import AGAIN_S, ProgressKeeper, progress_of
from hbus_console.jobs.run_progress import RunProgress
from hbus_console.jobs.services.jobs import delete_job
from hbus_console.jobs.shown_progress import AT_ONCE
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.jobs.test_pages import NAME, html_of, page, ran
from tests.hbus_console.topics.conftest import Caller

__all__ = ["page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
MIB = 1024 * 1024
STAGES = [
    SparkStage(0, 0, "read <b>lake</b>", "done", 212, 0, 0, 212, 1_000, 5_100),
    SparkStage(1, 1, "order per key", "running", 137, 2, 3, 160, 5_200),
    SparkStage(2, 0, "write findings", "waits", 0, 0, 0, 4),
]
SAID = SparkProgress(
    jobs=SparkJobs(done=1, active=1),
    tasks=SparkTasks(done=349, active=2, failed=3, total=376),
    stages=STAGES,
    stages_left_out=7,
    queries=[SparkQuery("arrivals", True, 41, 844.0, 850.5)],
    memory_bytes=812 * MIB,
    memory_most_bytes=1024 * MIB,
)


def call(run: int, epoch: int = 1, attempt: int = 1) -> RunCall:
    return RunCall(run, NAME, attempt, 0, epoch, "c")


def keep(run: JobRun, said: SparkProgress = SAID, **more: int) -> None:
    ProgressKeeper(call(run.pk, **more)).keep(said)


def goes_on(**more: Any) -> JobRun:
    return ran(RunState.RUNNING, ended_us=None, **more)


@pytest.fixture
def job(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Of the kind ``spark``, whatever of Spark is installed here."""
    monkeypatch.setattr("hbus_console.jobs.kinds.spark.SparkKind.check", lambda *_: None)
    return make_job("spark", "nightly/audit.py", timeout_s=600)


def test_the_newest_takes_the_place_of_the_one_before_and_none_of_an_older_epoch_does() -> None:
    run = ran()
    assert progress_of(run.pk) is None
    keep(run, epoch=2, attempt=2)
    keep(run, SparkProgress(tasks=SparkTasks(total=9)), epoch=3, attempt=3)
    keep(run, SparkProgress(tasks=SparkTasks(total=5)), epoch=2, attempt=2)
    kept = progress_of(run.pk)
    assert kept is not None
    assert (kept.attempt, kept.said) == (3, SparkProgress(tasks=SparkTasks(total=9)))
    RunProgress.objects.update(said={"of": "another release"})
    assert progress_of(run.pk) is None


def test_what_changes_in_memory_alone_is_kept_from_time_to_time() -> None:
    run, clock = ran(), ManualClock()
    keeper = ProgressKeeper(call(run.pk), clock)

    def memory(size: int, **more: Any) -> int | None:
        keeper.keep(msgspec.structs.replace(SAID, memory_bytes=size, **more))
        kept = progress_of(run.pk)
        return kept and kept.said.memory_bytes

    assert memory(1) == 1
    assert memory(2) == 1
    assert memory(3, stages_left_out=8) == 3
    clock.advance(AGAIN_S)
    assert memory(4, stages_left_out=8) == 4


def test_a_ledger_that_is_away_hinders_no_run_and_takes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran()
    keeper = ProgressKeeper(call(run.pk))

    def away(*_: object, **__: object) -> None:
        raise OperationalError("it is away")

    with monkeypatch.context() as broken:
        broken.setattr(RunProgress.objects, "filter", away)
        keeper.keep(SAID)
    assert progress_of(run.pk) is None
    keeper.keep(SAID)
    assert progress_of(run.pk) is not None


def test_the_page_of_a_run_shows_a_bar_its_stages_and_its_queries(page: Client, job: Job) -> None:
    run = goes_on(back_s=16)
    keep(run)
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    (bar,) = re.findall(r"<h2>([\d,]+ of [\d,]+ tasks)</h2>\s*<span class=\"meta\">([^<]*)</span>", html)
    assert bar[0] == "349 of 376 tasks"
    notes = bar[1].split(" · ")
    assert notes[:3] == ["92 %", "2 running", "3 tasks failed"]
    assert re.fullmatch(r"timeout in 9 m 4\d s", notes[3])
    assert notes[4:] == ["memory 812 of 1,024 MiB"]
    assert "read &lt;b&gt;lake&lt;/b&gt;" in html
    assert "<b>lake" not in html
    stages = html.partition('aria-label="Stages"')[2].partition("</section>")[0]
    assert re.findall(r'value="(\d+)" aria-label', stages) == ["212", "137", "0"]
    assert re.findall(r'<span class="badge ?(\w*)">(\w+)</span>', stages) == [
        ("ok", "done"), ("info", "running"), ("", "waits"),
    ]  # fmt: skip
    assert '<td class="num from-480">4.1 s</td>' in stages
    assert "7 more left out" in stages
    assert "attempt 2" in stages
    queries = html.partition('aria-label="Streaming queries"')[2].partition("</section>")[0]
    assert re.findall(r'<td class="num[^"]*">([^<]*)</td>', queries) == ["844", "850", "41"]


def test_of_a_run_that_is_over_its_last_state_is_shown_and_nothing_of_it_runs(page: Client, job: Job) -> None:
    run = ran(RunState.CANCELLED)
    keep(run)
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    stages = html.partition('aria-label="Stages"')[2].partition("</section>")[0]
    assert re.findall(r'<span class="badge ?(\w*)">([\w ]+)</span>', stages) == [
        ("ok", "done"), ("warn", "cut off"), ("", "not begun"),
    ]  # fmt: skip
    # More may have come of it: nobody knows of how many these are.
    progress = html.partition('aria-label="Progress"')[2].partition("</section>")[0]
    assert "<h2>349 tasks were done when it ended</h2>" in progress
    assert not re.search(r"%|376|meter", progress)
    assert '<span class="meta">3 tasks failed</span>' in progress
    assert "memory" not in html
    assert "timeout in" not in html


def test_of_many_stages_the_newest_are_seen_at_once_and_the_others_are_folded(page: Client, job: Job) -> None:
    run = goes_on()
    many = [SparkStage(number, 0, f"stage no. {number}", "done", 1, 0, 0, 1, 1, 2) for number in range(AT_ONCE + 3)]
    keep(run, SparkProgress(tasks=SparkTasks(done=99, total=99), stages=many))
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    folded = html.partition("<summary>3 earlier stages</summary>")[2].partition("</details>")
    assert re.findall(r"stage no\. (\d+)", folded[0]) == ["0", "1", "2"]
    assert re.findall(r"stage no\. (\d+)", folded[2]) == [str(number) for number in range(3, AT_ONCE + 3)]


def test_of_an_attempt_before_it_is_said_that_it_is(page: Client, job: Job) -> None:
    run = goes_on(attempt=2)
    keep(run)
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    assert "of attempt 1 · 3 tasks failed" in html
    assert "cut off" in html


def test_the_python_error_stands_first_in_the_log(page: Client, job: Job) -> None:
    run = ran(RunState.FAILED)
    append_piece(run.pk, 1, "26/11/29 ERROR Executor: a stack of Java\n", 1)
    keep(run, SparkProgress(failure="ValueError: no rate for <HB-1>\nin the driver:"))
    html = html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")
    assert html.index("ValueError: no rate for &lt;HB-1&gt;") < html.index("a stack of Java")
    assert "tasks</h2>" not in html
    text = page.get(f"/jobs/{NAME}/runs/{run.pk}/log/").content.decode()
    assert text == (
        "— the Python error of attempt 1 —\nValueError: no rate for <HB-1>\nin the driver:\n— the log —\n"
        "26/11/29 ERROR Executor: a stack of Java\n"
    )


@pytest.mark.parametrize("kind", ["spark", "http"])
def test_without_any_a_page_shows_none_and_that_of_another_kind_never_does(
    page: Client, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("hbus_console.jobs.kinds.spark.SparkKind.check", lambda *_: None)
    make_job(kind, "https://1.1.1.1/")
    run = goes_on()
    path = f"/jobs/{NAME}/runs/{run.pk}/"
    assert 'aria-label="Progress"' not in html_of(page, path)
    assert (f"progress:{run.pk}" in html_of(page, path)) == (kind == "spark")
    keep(run)
    assert ('aria-label="Progress"' in html_of(page, path)) == (kind == "spark")


def test_it_outlives_the_job_as_the_log_does(page: Client, job: Job) -> None:
    run = ran()
    keep(run)
    delete_job(SYSTEM, NAME, NAME, "no more")
    assert 'aria-label="Progress"' in html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")


@pytest.mark.parametrize("scopes", [("*",), (NAME,)])
def test_the_page_of_a_run_hears_of_it_and_who_may_not_see_the_job_does_not(
    page: Client, job: Job, scopes: tuple[str, ...]
) -> None:
    run = goes_on()
    mark = f"progress:{run.pk}"
    assert mark in html_of(page, f"/jobs/{NAME}/runs/{run.pk}/").partition('data-shows="')[2].partition('"')[0].split()
    keep(run)
    now_ms = round(time.time() * 1_000)
    before = live.cells(now_ms, scopes).marks[mark]
    assert mark not in live.cells(now_ms, ("other.*",)).marks
    keep(run, SparkProgress(tasks=SparkTasks(total=9)))
    assert live.cells(now_ms, scopes).marks[mark] != before
    assert mark not in live.cells(now_ms + 60_000, scopes).marks


def test_the_api_has_it_with_the_run_alone_and_only_for_who_may_see_the_job(
    calling: Callable[..., Caller], job: Job
) -> None:
    run, path = goes_on(), f"jobs/{NAME}/runs"
    call = calling(Role.VIEWER)
    assert call("GET", f"{path}/{run.pk}").json()["progress"] is None
    keep(run)
    told = call("GET", f"{path}/{run.pk}").json()["progress"]
    assert (told.pop("attempt"), bool(told.pop("at"))) == (1, True)
    assert msgspec.convert(told, type=SparkProgress) == SAID
    assert "progress" not in call("GET", path).json()["results"][0]
    assert calling(Role.VIEWER, "other.*")("GET", f"{path}/{run.pk}").status_code == 403


def test_it_is_documented(calling: Callable[..., Caller]) -> None:
    schema = yaml.safe_load(calling()("GET", "schema").content)
    answer = schema["paths"]["/api/v1/jobs/{job}/runs/{run_id}"]["get"]["responses"]["200"]
    described = json.dumps(answer["content"]["application/json"]["schema"]["properties"]["progress"])
    assert all(f'"{name}"' in described for name in (*SparkProgress.__struct_fields__, "processed_rows_s", "attempt"))
