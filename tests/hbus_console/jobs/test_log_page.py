"""How much of a log the page of its run shows: lines decide, and characters, not in how many pieces they came."""

from __future__ import annotations

import pytest
from django.test import Client

from hbus_console.jobs.log_pieces import append_piece
from hbus_console.jobs.models import Job
from hbus_console.jobs.views import runs
from tests.hbus_console.jobs.test_pages import NAME, html_of, job, page, ran

__all__ = ["job", "page"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
CUT = "Earlier lines are in the download."


def shown(page: Client, pieces: list[str]) -> str:
    run = ran()
    for piece in pieces:
        append_piece(run.pk, 1, piece, 1)
    return html_of(page, f"/jobs/{NAME}/runs/{run.pk}/")


def test_a_short_log_is_shown_whole_however_many_pieces_it_came_in(page: Client, job: Job) -> None:
    html = shown(page, [f"line {number} of it\n" for number in range(60)])
    assert CUT not in html
    assert "line 0 of it" in html
    assert "line 59 of it" in html


@pytest.mark.parametrize(
    "text", ["x\n" * (runs.MOST_LINES // 2), "x" * (runs.MOST_CHARACTERS // 2)], ids=["many lines", "long lines"]
)
def test_of_a_long_one_the_end_is_shown_and_that_there_is_more_is_said(page: Client, job: Job, text: str) -> None:
    html = shown(page, ["the beginning\n", text, f"{text}the end\n"])
    assert CUT in html
    assert "the end" in html
    assert "the beginning" not in html


def test_a_last_piece_that_is_too_long_by_itself_is_shown(page: Client, job: Job) -> None:
    assert "the end" in shown(page, ["the beginning\n", "x\n" * runs.MOST_LINES + "x\nthe end\n"])
