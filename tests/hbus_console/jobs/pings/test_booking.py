"""What pings make of the runs of their job: one row a slot, and nothing of what came is dropped."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from prometheus_client import REGISTRY

from engine.core.clock import SystemClock
from engine.core.errors import NotThere, Unavailable
from engine.cron.facts import ended_fact
from engine.cron.slots.steps import RunState
from hbus_console import metrics
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs import log_pieces
from hbus_console.jobs.models import Job, JobCursor, JobRun, LogPiece, PingAddress
from hbus_console.jobs.pings.booking import NOTHING_BUT_A_LOG
from hbus_console.jobs.pings.ping import MOST_BODY, Ping, PingWord, TooManyPings
from hbus_console.jobs.services import pings
from hbus_console.jobs.services.jobs import change_job, delete_job, pause_job
from hbus_console.jobs.services.pings import LOG_LOST, RATE, receive
from hbus_console.jobs.services.triggering import cancel_run
from tests.hbus_console.jobs.pings.conftest import HOUR, NAME, WHERE, Bell, MakeBell

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
START, SUCCESS, FAILURE, LOG = PingWord.START, PingWord.SUCCESS, PingWord.FAILURE, PingWord.LOG
ONE, OTHER = "0189d8a0-0000-4000-8000-000000000001", "0189d8a0-0000-4000-8000-000000000002"


@pytest.mark.parametrize("decided", [True, False], ids=["decided", "before any node"])
def test_a_success_in_time_is_the_run_of_its_slot(bell: Bell, decided: bool) -> None:
    if decided:
        bell.decide(1)
    run = bell.ping(42, sender="10.0.0.7")
    assert bell.rows() == [("schedule", 0, "done")]
    assert (run.begun_us, run.ended_us, run.owner, run.reason) == (None, (HOUR + 42) * 1_000_000, WHERE, "")
    assert bell.log(run) == "hbus: 2026-09-21T15:00:42Z success from 10.0.0.7\n"
    # Whoever comes later finds the slot decided.
    bell.decide(50)
    bell.sweep(5_000)
    assert bell.rows() == [("schedule", 0, "done")]
    assert JobCursor.objects.get(job=NAME).at == HOUR


def test_from_a_start_to_its_end_is_its_time(bell: Bell) -> None:
    run = bell.ping(10, START)
    assert (run.state, run.begun_us) == (RunState.RUNNING, (HOUR + 10) * 1_000_000)
    run = bell.ping(70, exit_code=0)
    assert (run.state, run.ended_us) == (RunState.DONE, (HOUR + 70) * 1_000_000)
    assert bell.rows() == [("schedule", 0, "done")]
    assert [line.split("Z ")[1] for line in bell.log(run).splitlines()] == ["start", "exit code 0"]


@pytest.mark.parametrize(("exit_code", "reason"), [(None, "it said that it failed"), (3, "it ended with exit code 3")])
def test_a_failure_says_how(bell: Bell, exit_code: int | None, reason: str) -> None:
    run = bell.ping(10, FAILURE, exit_code=exit_code, body=b"disk full")
    assert (run.state, run.reason) == (RunState.FAILED, reason)
    assert bell.log(run).endswith("\ndisk full\n")


def test_a_log_binds_the_run_that_waits_to_its_rid(bell: Bell) -> None:
    bell.decide(1)
    waits = bell.ping(2, LOG, ONE, body=b"about to begin")
    assert (waits.state, waits.key) == (RunState.CLAIMED, ONE)
    # Another's start is not its start.
    assert bell.ping(3, START, OTHER).kind == "ping"
    assert bell.ping(4, START).kind == "ping"
    assert bell.ping(5, START, ONE).pk == waits.pk
    assert bell.ping(6, SUCCESS, ONE).pk == waits.pk
    assert ("schedule", 0, "done") in bell.rows()


def test_the_end_of_the_grace_is_the_end_of_waiting(bell: Bell) -> None:
    bell.decide(1)
    bell.sweep(600)
    assert bell.rows() == [("schedule", 0, "claimed")]
    bell.sweep(600.5)
    missed = JobRun.objects.get()
    assert (missed.state, missed.reason) == (RunState.ABANDONED, "no ping came until 2026-09-21 15:10:00 UTC")
    assert bell.offered == []


@pytest.mark.parametrize("seen", ["ended", "decided", "not decided"])
def test_what_comes_late_is_a_run_of_its_own_and_each_names_the_other(bell: Bell, seen: str) -> None:
    if seen != "not decided":
        bell.decide(1)
    if seen == "ended":
        bell.sweep(601)
    late = bell.ping(720, START)
    bell.ping(780)
    bell.decide(781)
    bell.sweep(782)
    assert bell.rows() == [("schedule", 0, "abandoned"), ("ping", 720, "done")]
    assert late.asked_why == "late: it came 12 m after a slot that waited 600 s for a ping"
    missed = JobRun.objects.get(kind="schedule")
    assert missed.summary == f"start came 12 m after the slot, as run {late.pk}"
    # The one behind it is not late, and says nothing of the slot.
    assert bell.ping(900).asked_why == "no slot waited for it"


def test_a_run_that_goes_on_past_the_grace_is_in_time_for_it_began(bell: Bell) -> None:
    bell.ping(10, START)
    bell.sweep(900)
    bell.ping(1_500)
    assert bell.rows() == [("schedule", 0, "done")]


@pytest.mark.parametrize("swept", [True, False], ids=["a node saw it first", "no node looked"])
def test_a_start_without_an_end_fails_and_the_end_that_comes_after_is_not_lost(bell: Bell, swept: bool) -> None:
    run = bell.ping(10, START, ONE)
    if swept:
        bell.sweep(1_809)
        assert bell.rows() == [("schedule", 0, "running")]
        bell.sweep(1_811)
    after = bell.ping(1_900, SUCCESS, ONE)
    assert after.pk == run.pk
    assert (after.state, after.reason) == (RunState.FAILED, "no end came within 1,800 s")
    assert "success; " in bell.log(run).splitlines()[1]
    assert bell.offered == []


@pytest.mark.parametrize("swept", [True, False], ids=["a node saw it first", "no node looked"])
def test_without_a_rid_too_the_end_that_comes_after_is_of_the_run_that_began_last(bell: Bell, swept: bool) -> None:
    run = bell.ping(10, START)
    if swept:
        bell.sweep(1_811)
    after = bell.ping(1_900, exit_code=0)
    assert (after.pk, after.state, after.reason) == (run.pk, RunState.FAILED, "no end came within 1,800 s")
    assert after.summary == "exit code 0 came 31 m 30 s after it began"
    told = "the run was failed before, and stays so" if swept else "after its time"
    assert bell.log(run).splitlines()[1].endswith(f"exit code 0; {told}")
    assert bell.rows() == [("schedule", 0, "failed")]
    # Its end has come: the next one is another's.
    assert bell.ping(1_950).kind == "ping"
    # And the next run has its own.
    bell.ping(3_605, START)
    assert bell.ping(3_700).slot == HOUR + 3_600
    assert bell.rows()[-1] == ("schedule", 3_600, "done")


def test_an_end_without_a_rid_does_not_reach_over_a_run_that_has_ended_since(bell: Bell) -> None:
    bell.ping(10, START)
    bell.sweep(1_811)
    bell.ping(3_601, START)
    bell.ping(3_650)
    assert bell.ping(3_660).kind == "ping"
    assert bell.rows()[:2] == [("schedule", 0, "failed"), ("schedule", 3_600, "done")]


def test_the_end_of_a_run_that_was_cancelled_makes_it_no_success(bell: Bell) -> None:
    run = bell.ping(10, START)
    cancel_run(SYSTEM, NAME, run.pk, "it hangs")
    after = bell.ping(70)
    assert (after.pk, after.state) == (run.pk, RunState.CANCELLED)
    assert bell.log(run).splitlines()[1].endswith("success; the run was cancelled before, and stays so")
    assert bell.rows() == [("schedule", 0, "cancelled")]


def test_an_end_is_of_no_run_of_a_job_that_was_deleted(make_bell: MakeBell) -> None:
    bell = make_bell()
    bell.ping(10, START)
    delete_job(SYSTEM, NAME, NAME, "it goes")
    bell = make_bell()
    assert bell.ping(70).state == RunState.DONE


def test_without_a_bound_on_its_time_it_may_take_as_long_as_it_does(make_bell: MakeBell) -> None:
    bell = make_bell(timeout_s=0)
    bell.ping(10, START)
    bell.sweep(3_500_000)
    assert bell.ping(3_500_100).state == RunState.DONE


def test_a_second_success_is_a_run_beside_the_slots(bell: Bell) -> None:
    bell.ping(10)
    again = bell.ping(20)
    assert bell.rows() == [("schedule", 0, "done"), ("ping", 20, "done")]
    assert again.asked_why == "no slot waited for it"


def test_too_early_is_beside_the_slots_but_a_clock_may_be_ahead(bell: Bell) -> None:
    bell.ping(-31, START)
    bell.ping(-30.5)
    assert bell.rows() == [("ping", -31, "done")]
    bell.ping(-29, START)
    assert bell.rows() == [("ping", -31, "done"), ("schedule", 0, "running")]
    bell.ping(15)
    bell.decide(20)
    assert bell.rows() == [("ping", -31, "done"), ("schedule", 0, "done")]


def test_of_short_periods_only_a_tenth_is_early(make_bell: MakeBell) -> None:
    bell = make_bell(30, schedule="* * * * *", grace_s=50)
    bell.ping(-7)
    bell.ping(-5)
    assert bell.rows() == [("ping", -7, "done"), ("schedule", 0, "done")]


def test_a_slot_before_the_job_was_made_is_nobodys(make_bell: MakeBell) -> None:
    bell = make_bell(grace_s=7_200)
    assert bell.ping(-200).kind == JobRun.Kind.PING


def test_of_several_slots_that_wait_it_is_the_newest(make_bell: MakeBell) -> None:
    bell = make_bell(30, schedule="* * * * *", grace_s=300)
    bell.decide(61)
    bell.ping(125)
    assert bell.rows() == [("schedule", 0, "claimed"), ("schedule", 60, "claimed"), ("schedule", 120, "done")]
    # A slower one of the minute before is told of after it.
    bell.ping(130)
    assert bell.rows()[1] == ("schedule", 60, "done")
    bell.decide(131)
    bell.sweep(301)
    assert bell.rows()[0] == ("schedule", 0, "abandoned")


def test_the_start_of_the_next_is_not_taken_for_one_that_was_missed(make_bell: MakeBell) -> None:
    bell = make_bell(30, schedule="* * * * *", grace_s=300)
    bell.decide(1)
    # An end at that time is more likely of one that took nearly a minute.
    assert bell.ping(56, LOG).slot == HOUR
    assert bell.ping(57, START).slot == HOUR + 60


def test_pings_of_one_run_find_each_other(make_bell: MakeBell) -> None:
    bell = make_bell(schedule="* * * * *", grace_s=30)
    first, second = bell.ping(1, START, ONE), bell.ping(61, START, OTHER)
    assert bell.ping(70, SUCCESS, ONE).pk == first.pk
    assert bell.ping(75, FAILURE, OTHER).pk == second.pk
    assert bell.rows() == [("schedule", 0, "done"), ("schedule", 60, "failed")]
    # What comes again changes nothing, and is told.
    assert bell.ping(80, SUCCESS, OTHER).state == RunState.FAILED
    assert bell.log(second).splitlines()[-1].endswith("success; the run was failed before, and stays so")
    assert bell.ping(81, START, ONE).state == RunState.DONE


def test_an_end_of_another_run_ends_none_that_goes_on(bell: Bell) -> None:
    running = bell.ping(1, START, ONE)
    assert bell.ping(5, SUCCESS, OTHER).kind == JobRun.Kind.PING
    assert bell.ping(6, SUCCESS).kind == JobRun.Kind.PING
    running.refresh_from_db()
    assert running.state == RunState.RUNNING


def test_a_second_start_is_told_and_the_time_goes_on_from_the_first(bell: Bell) -> None:
    first = bell.ping(1, START)
    again = bell.ping(9, START)
    assert (again.pk, again.begun_us) == (first.pk, first.begun_us)
    assert "it had begun before, and no slot waited for another" in bell.log(first)
    bound = bell.ping(20, START, ONE)
    assert (bound.kind, bell.ping(21, START, ONE).pk) == ("ping", bound.pk)


def test_the_newest_that_goes_on_takes_the_end(make_bell: MakeBell) -> None:
    bell = make_bell(timeout_s=86_400)
    bell.ping(1, START)
    bell.ping(3_601, START)
    bell.ping(3_700)
    assert bell.rows() == [("schedule", 0, "running"), ("schedule", 3_600, "done")]


def test_a_log_goes_to_the_run_that_goes_on_or_waits_or_just_ended(bell: Bell) -> None:
    waiting = bell.ping(1, LOG, body=b"getting ready")
    assert (waiting.kind, waiting.state) == ("schedule", "claimed")
    running = bell.ping(2, START)
    bell.ping(3, LOG, body=b"half of it")
    bell.ping(4)
    bell.ping(30, LOG, body=b"and the rest")
    assert running.pk == waiting.pk
    assert bell.rows() == [("schedule", 0, "done")]
    said = bell.log(running)
    assert all(f"\n{word}\n" in said for word in ("getting ready", "half of it", "and the rest"))
    assert said.count("log\n") == 3
    alone = bell.ping(200, LOG, body=b"who am I")
    assert (alone.kind, alone.state, alone.reason) == ("ping", "skipped", NOTHING_BUT_A_LOG)
    assert bell.log(alone).endswith("who am I\n")


def test_a_log_that_names_its_run_finds_it_whenever_it_comes(bell: Bell) -> None:
    run = bell.ping(1, START, ONE)
    bell.ping(2, SUCCESS, ONE)
    assert bell.ping(3_000, LOG, ONE, body=b"late lines").pk == run.pk
    assert "stays so" not in bell.log(run)
    assert bell.ping(3_001, LOG, OTHER, body=b"of nobody").state == RunState.SKIPPED


def test_a_paused_job_is_skipped_and_its_pings_stand_beside(bell: Bell) -> None:
    bell.decide(1)
    pause_job(SYSTEM, NAME, "the host moves", now_s=lambda: HOUR + 2)
    beside = bell.ping(10)
    assert beside.asked_why == "its slots are skipped: paused: the host moves"
    bell.sweep(601)
    slot = JobRun.objects.get(kind="schedule")
    assert (slot.state, slot.reason) == (
        RunState.SKIPPED,
        "paused: the host moves; no ping came until 2026-09-21 15:10:00 UTC",
    )
    bell.decide(3_601)
    assert bell.rows()[-1] == ("schedule", 3_600, "skipped")


def test_what_came_while_no_node_decided_is_judged_all_the_same(bell: Bell) -> None:
    bell.ping(3_610)
    bell.decide(10_000)
    bell.sweep(10_000)
    assert bell.rows() == [("schedule", 0, "abandoned"), ("schedule", 3_600, "done"), ("schedule", 7_200, "abandoned")]


def test_a_schedule_that_cannot_be_read_any_more_loses_no_ping(bell: Bell) -> None:
    Job.objects.update(zone="Mars/Olympus")
    run = bell.ping(10)
    assert (run.kind, run.state) == ("ping", "done")
    assert "its schedule cannot be read" in run.asked_why


def test_what_is_too_long_is_cut_and_says_so(bell: Bell) -> None:
    run = bell.ping(1, body=b"x" * 100 + b"\n" + b"y" * MOST_BODY, announced=1_000_000)
    said = bell.log(run)
    assert said.endswith("\n… the rest was cut: of 1,000,000 bytes the first 65,536 bytes are kept\n")
    assert bell.log(bell.ping(2, body=b"x" * (MOST_BODY + 1))).endswith(
        "\n… the rest was cut: the first 65,536 bytes are kept\n"
    )
    whole = bell.log(bell.ping(3, body=(b"x" * 63 + b"\n") * 1_024))
    assert "cut" not in whole
    assert len(whole.splitlines()) == 1_025


def test_its_log_is_cleaned_as_any(bell: Bell) -> None:
    url = f"https://console.example/ping/{bell.code}"
    run = bell.ping(
        1, body=f"\x1b[31mred\nhbp_{'a' * 32}\n+ curl {url}/start\nBearer {'t' * 20}\n\xff".encode("latin-1")
    )
    said = bell.log(run)
    assert "\\x1b[31mred\n" in said
    assert bell.code not in said
    assert "/ping/hbp_[redacted]/start" in said
    assert "Bearer [redacted]" in said


def test_a_long_log_keeps_its_beginning_and_its_end(bell: Bell) -> None:
    run = bell.ping(1, START)
    for number in range(40):
        bell.ping(2 + number, LOG, body=f"{number}\n".encode() + b"z\n" * 32_000)
    pieces = list(LogPiece.objects.filter(run=run.pk).order_by("seq"))
    assert [piece.seq for piece in pieces[:3]] == [1, 2, 3]
    assert pieces[-1].text.endswith("z\n")
    most = log_pieces.HEAD + log_pieces.TAIL + log_pieces.EVERY * log_pieces.LARGEST
    assert log_pieces.TAIL < sum(len(piece.text) for piece in pieces) < most
    assert sum(piece.left_bytes for piece in pieces) > 0
    assert all(len(text) <= 16 * 1024 for text in LogPiece.objects.values_list("text", flat=True))


def test_more_than_its_rate_is_refused_for_so_long_and_books_nothing(bell: Bell) -> None:
    for _ in range(RATE):
        bell.ping(1, LOG)
    rows, heard = bell.rows(), PingAddress.objects.get().heard_us
    with pytest.raises(TooManyPings) as refused:
        bell.ping(1.2)
    assert refused.value.wait_s == 1
    found = PingAddress.objects.get()
    assert (bell.rows(), found.heard_us, found.refused_ms) == (rows, heard, HOUR * 1_000 + 1_200)
    assert bell.ping(1.7).state == RunState.DONE


def test_a_code_of_nobody_leaves_nothing(bell: Bell) -> None:
    for code in ("", "hbp_", f"hbp_{'a' * 32}", "x" * 5_000, bell.code[:-1], bell.code + "a", bell.code.upper()):
        with pytest.raises(NotThere):
            receive(code, Ping(SUCCESS), now_s=lambda: HOUR + 1.0)
    assert not JobRun.objects.exists()
    assert not LogPiece.objects.exists()


def test_a_log_database_that_is_away_loses_no_run(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("it does not answer")

    monkeypatch.setattr(pings, "add_to_log", away)
    run = bell.ping(1, body=b"text")
    assert (run.state, run.summary) == (RunState.DONE, LOG_LOST)
    with pytest.raises(Unavailable):
        bell.ping(2, LOG, body=b"text")


def test_what_is_told_counts_and_is_measured(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(
        pings, "_tell", lambda facts: told.extend((fact.kind, fact.fields.duration_us) for fact in facts)
    )
    bell.ping(1, START)
    bell.ping(3)
    bell.ping(4, FAILURE)
    assert told == [("run_begun", 0), ("run_done", 2_000_000), ("run_failed", 0)]


def test_what_began_beside_all_slots_has_no_lateness_and_what_began_at_its_time_has(
    bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a reviewer: it was measured as one microsecond, and made the others look punctual."""
    late: list[int] = []
    monkeypatch.setattr(pings, "_tell", lambda facts: late.extend(fact.fields.late_us for fact in facts))
    bell.decide(0)
    assert bell.ping(0, START, rid=ONE).late_us == 0
    assert bell.ping(1, START, rid=OTHER).late_us is None
    assert late == [1, 0]


def test_an_end_without_a_beginning_is_counted_and_not_measured(prefix: str) -> None:
    def told(name: str) -> float:
        return REGISTRY.get_sample_value(name, {"job": prefix}) or 0.0

    for took_us in (0, 2_000_000):
        fact = ended_fact(prefix, RunState.DONE, SystemClock(), "n1", took_us)
        assert fact is not None
        metrics.count([fact])
    assert (told("hbus_run_done_total"), told("hbus_run_duration_seconds_count")) == (2, 1)


def test_a_change_of_its_times_holds_for_what_waits(bell: Bell) -> None:
    bell.decide(1)
    change_job(SYSTEM, NAME, {"grace_s": 3_000}, now_s=lambda: HOUR + 5.0)
    bell.sweep(700)
    assert bell.ping(2_000).slot == HOUR
