"""``manage.py cron next``: what it prints, what it answers to lines, what it refuses, how fast."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from hbus_console.jobs.preview import answer
from hbus_console.state import ROOT

NOW_S = 1_790_000_000
#: Lines, and the seconds of the processor that they may take.
LINES, GOAL_S = 10_000, 10.0


def shown(*words: str) -> str:
    out = io.StringIO()
    call_command("cron", "next", *words, stdout=out)
    return out.getvalue()


def asked(**question: Any) -> dict[str, Any]:
    return answer(json.dumps(question).encode(), NOW_S)


def test_slots_are_printed_on_the_wall_and_in_utc_with_what_the_clocks_do() -> None:
    told = shown("30 2 * * *", "--zone", "Europe/Berlin", "--after", "2026-03-28T00:00:00Z", "--count", "2")
    assert told.splitlines() == [
        "At 02:30 every day, Europe/Berlin time.",
        "  2026-03-28T02:30:00+01:00  2026-03-28T01:30:00Z",
        "  2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z  its time is left out: when the gap ends",
        "croniter gives the same.",
    ]


def test_where_croniter_differs_or_cannot_read_it_that_is_said() -> None:
    fold = ("--zone", "Europe/Berlin", "--after", "2026-10-24T12:00:00Z")
    assert shown("30 2 * * *", *fold).endswith("croniter differs; docs/cron-semantics.md says where and why.\n")
    assert shown("0 0 * * 5L").endswith("croniter cannot read it.\n")


def test_as_json() -> None:
    told = json.loads(shown("0 9 * * 1", "--zone", "Asia/Kolkata", "--after", "2026-01-01", "--count", "1", "--json"))
    assert told == {
        "spec": "0 9 * * 1",
        "zone": "Asia/Kolkata",
        "gap": "end",
        "fold": "first",
        "words": "At 09:00 on Monday, Asia/Kolkata time.",
        "slots": [{"local": "2026-01-05T09:00:00+05:30", "utc": "2026-01-05T03:30:00Z", "dst": ""}],
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("61 * * * *",), "At character 1 of the expression: 61 is out of the range of the minute field."),
        (("* * * * *", "--zone", "Mars"), "'Mars' is no time zone."),
        (("* * * * *", "--count", "0"), "0 slots cannot be told. Ask for 1 to 1,000 of them."),
        (("* * * * *", "--after", "soon"), "'soon' is no instant."),
        (("* * * * *", "--gap", "jump"), "'jump' is no policy. Write one of run, end, skip."),
        (("* * * * *", "--fold", "never"), "'never' is no policy. Write one of first, both, last."),
        ((), "Give an expression in quotes, or --stdin."),
    ],
)
def test_what_cannot_be_asked_is_refused_with_2(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError) as refused:
        shown(*words)
    assert refused.value.returncode == 2
    assert sentence in str(refused.value)


def test_a_line_is_answered_by_its_slots() -> None:
    question = {"spec": "30 2 * * *", "tz": "Europe/Berlin", "after": "2026-10-24T12:00:00Z", "count": 2}
    first, second = ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z")
    assert [slot["utc"] for slot in asked(**question, fold="both")["slots"]] == [first, second]
    assert [slot["dst"] for slot in asked(**question, fold="both")["slots"]] == ["first", "second"]
    assert asked(**question, fold="first")["slots"][0]["utc"] == first
    assert asked(**question, fold="last")["slots"][0]["utc"] == second
    question = {"spec": "30 2 * * *", "tz": "Europe/Berlin", "after": "2026-03-28T12:00:00Z", "count": 1}
    assert asked(**question, gap="run") == asked(**question, gap="end") == asked(**question)
    assert asked(**question, gap="skip")["slots"][0]["utc"] == "2026-03-30T00:30:00Z"


@pytest.mark.parametrize(
    ("after", "first"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T09:00:00+01:00"),
        ("2026-01-01T09:00:00+01:00", "2026-01-02T09:00:00+01:00"),
        # Without an offset it is what the wall of the zone shows.
        ("2026-01-01T08:59:59", "2026-01-01T09:00:00+01:00"),
        ("2026-07-01 09:00", "2026-07-02T09:00:00+02:00"),
        ("2026-01-01", "2026-01-01T09:00:00+01:00"),
        ("", "2026-09-22T09:00:00+02:00"),
    ],
)
def test_after_is_an_instant_or_a_wall_time(after: str, first: str) -> None:
    assert asked(spec="0 9 * * *", tz="Europe/Berlin", after=after, count=1)["slots"][0]["local"] == first


@pytest.mark.parametrize(
    ("line", "position", "reason"),
    [
        (b'{"spec": "0 25 * * *"}', 2, "25 is out of the range of the hour field"),
        (b'{"spec": "* * * * *", "tz": "Mars"}', None, "'Mars' is no time zone"),
        (b'{"spec": "CRON_TZ=Mars * * * * *"}', 8, "'Mars' is no time zone"),
        (b'{"spec": "* * * * *", "count": 1001}', None, "1001 slots cannot be told."),
        (b'{"spec": 5}', None, "The line is not a question: Expected `str`, got `int` - at `$.spec`."),
        (b'{"spec": "* * * * *", "zone": "UTC"}', None, "The line is not a question: Object contains unknown field"),
        (b"{}", None, "The line is not a question: Object missing required field `spec`."),
        (b"nonsense", None, "The line is not a question: JSON is malformed"),
        (b"\xff", None, "The line is not a question: JSON is malformed"),
        (b"", None, "The line is not a question: Input data was truncated."),
    ],
)
def test_a_line_that_cannot_be_answered_says_where_why_and_what_to_do(
    line: bytes, position: int | None, reason: str
) -> None:
    error = answer(line, NOW_S)["error"]
    assert error["position"] == position
    assert error["reason"].startswith(reason)
    assert error["remedy"]


@pytest.mark.parametrize("after", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00", "0001-01-01T00:00:00+14:00"])
@pytest.mark.parametrize("spec", ["@every 90s", "* * * * *", "0 0 1 1 *"])
def test_the_ends_of_the_calendar_are_answered_as_any_line(spec: str, after: str) -> None:
    line = json.dumps({"spec": spec, "tz": "Asia/Tokyo", "after": after}).encode()
    assert answer(line, 0).keys() & {"slots", "error"}


def test_ten_thousand_lines_are_answered_in_under_ten_seconds() -> None:
    zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
    specs = ["*/5 * * * *", "30 2 * * 1-5", "0 0 29 2 *", "0 0 L * *", "61 * * * *", "@every 90s", "H H * * *"]
    lines = [
        json.dumps({"spec": specs[n % 7], "tz": zones[n % 5], "after": f"20{26 + n % 9}-01-01T00:00:00Z", "count": 5})
        for n in range(LINES)
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "manage.py", "cron", "next", "--stdin"],
        cwd=ROOT,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == LINES
    assert ["error" in each for each in answers] == [n % 7 == 4 for n in range(LINES)]
    assert all(len(each["slots"]) == 5 for each in answers if "slots" in each)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{LINES:,} lines in {took_s:.2f} s of the processor, with its start")
    assert took_s < GOAL_S
