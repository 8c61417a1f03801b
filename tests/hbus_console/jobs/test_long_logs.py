"""A long log is bounded by what stands in it, however slowly it came; and what is missing is said in its place."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from hbus_console.jobs import log_pieces
from hbus_console.jobs.log_pieces import append_piece
from hbus_console.jobs.models import Job, LogPiece
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

#: 2026-11-26 03:50:00 UTC, in microseconds.
BEGAN_US = 1_795_665_000_000_000
S = 1_000_000


def download(page: Client, run: int) -> str:
    return page.get(f"/jobs/{NAME}/runs/{run}/log/").content.decode()


def prints(run: int, attempt: int, lines: int, begun_us: int = BEGAN_US, text: str = "step {}\n") -> None:
    """A line a second."""
    for number in range(lines):
        append_piece(run, attempt, text.format(number), begun_us + number * S, upto=number + 1)


def test_of_a_run_that_prints_a_line_a_second_nothing_is_lost(page: Client, job: Job) -> None:
    run = ran().pk
    prints(run, 1, 600)
    assert download(page, run) == "".join(f"step {number}\n" for number in range(600))
    # And nobody keeps a row a line: what came before the newest is joined.
    assert LogPiece.objects.filter(run=run).count() < log_pieces.AS_THEY_CAME + 2 * log_pieces.EVERY


def test_who_follows_by_numbers_is_told_each_line_once(job: Job) -> None:
    run, seen, told = ran().pk, 0, ""
    for number in range(400):
        append_piece(run, 1, f"step {number}\n", BEGAN_US + number * S)
        # As those do who ask anew now and then.
        if number % 100 == 0:
            for piece in LogPiece.objects.filter(run=run, seq__gt=seen):
                told, seen = told + piece.text, piece.seq
    assert told == "".join(f"step {number}\n" for number in range(301))


def test_what_is_joined_goes_on_from_the_byte_that_was_shipped(job: Job) -> None:
    run = ran().pk
    prints(run, 1, 400)
    newest = LogPiece.objects.filter(run=run, attempt=1).order_by("-seq").first()
    assert newest is not None
    assert newest.upto == 400


def test_attempts_are_not_joined(page: Client, job: Job) -> None:
    run = ran().pk
    for attempt in range(1, 5):
        prints(run, attempt, 70, BEGAN_US + attempt * 100 * S)
    said = [piece.text for piece in LogPiece.objects.filter(run=run, attempt=2)]
    assert "".join(said) == "".join(f"step {number}\n" for number in range(70))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pieces, "HEAD", 200)
    monkeypatch.setattr(log_pieces, "TAIL", 3_000)
    monkeypatch.setattr(log_pieces, "LARGEST", 100)


@pytest.mark.usefixtures("narrow")
def test_the_beginning_of_each_attempt_and_the_end_are_kept_and_the_gap_is_told(page: Client, job: Job) -> None:
    run = ran().pk
    prints(run, 1, 640)
    prints(run, 2, 640, BEGAN_US + 1_000 * S)
    log = download(page, run)
    gaps = re.findall(r"… ([\d,]+) lines \(([\d.]+ \w+)\), from (\S+ \S+) to (\S+ \S+), were left out here: of a", log)
    assert len(gaps) == 2
    first, second = (part.splitlines() for part in re.split(r"….*\n", log)[:2])
    assert first[0] == "step 0"
    # Of the second its own beginning stands there, behind the end of the first or the gap.
    assert "step 0" in second
    assert "step 20" in second
    assert log.endswith("step 639\n")
    # Every line is there or counted.
    lines = sum(int(gap[0].replace(",", "")) for gap in gaps)
    assert lines + len([line for line in log.splitlines() if not line.startswith("…")]) == 1_280
    # And said from when to when it came: behind the last line before it, up to the next one.
    shown = int(first[-1].removeprefix("step "))
    minutes, seconds = divmod(shown + 1, 60)
    assert gaps[0][2] == f"2026-11-26 03:{50 + minutes:02}:{seconds:02}"
    assert "were left out here" in html_of(page, f"/jobs/{NAME}/runs/{run}/")
    told = page.get(f"/api/v1/jobs/{NAME}/runs/{run}/log?limit=500").json()["results"]
    assert sum(piece["left_out_bytes"] for piece in told) > 0


@pytest.mark.usefixtures("narrow")
def test_however_long_it_prints_no_more_is_kept(job: Job) -> None:
    run = ran().pk
    prints(run, 1, 2_000)
    kept = sum(len(piece.text) for piece in LogPiece.objects.filter(run=run))
    assert kept <= log_pieces.HEAD + log_pieces.TAIL + log_pieces.EVERY * len("step 1999\n")


def test_a_log_that_an_older_release_has_cut_says_so(page: Client, job: Job) -> None:
    run = ran().pk
    for seq in (1, 2, 9):
        LogPiece.objects.create(run=run, seq=seq, attempt=1, at_us=BEGAN_US, text=f"step {seq}\n")
    assert "step 2\n… a part of the log was left out here" in download(page, run)
    assert download(page, run).count("left out") == 1
