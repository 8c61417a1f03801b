"""The soak in its small form, and how it judges."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hbus_console.bench.soak import MIB, MOST_GROWTH, MemoryReading, Result
from hbus_console.state import ROOT


def soak(state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STATE": str(state), "HBUS_APPS": ""}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    return subprocess.run(
        [sys.executable, "manage.py", "soak", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_fifty_thousand_messages_leave_memory_flat_and_every_count_adds_up(tmp_path: Path) -> None:
    done = soak(tmp_path, "--messages", "50000")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "50,000 published; 50,000 handled; 50,000 settled; 100,000 facts" in done.stdout
    for who in ("producer", "consumer", "store"):
        assert f"{who}: at most " in done.stdout
    assert "flat is at most +16 MiB" in done.stdout


def test_it_is_bounded_in_time_and_says_so(tmp_path: Path) -> None:
    done = soak(tmp_path, "--messages", "1000000000", "--minutes", "0.02")
    assert done.returncode == 0, done.stderr + done.stdout
    assert " published of 1,000,000,000, for time was up; " in done.stdout


@pytest.fixture
def flat() -> Result:
    readings = [MemoryReading(number, 70 * MIB, 80 * MIB, 30 * MIB) for number in range(10, 1001, 10)]
    return Result(published=1_000, handled=1_000, settled=1_000, facts=2_000, seconds=1.0, readings=readings)


def test_flat_memory_and_counts_that_add_up_are_no_problem(flat: Result) -> None:
    assert flat.problems == []


def test_growth_up_to_the_bound_is_flat_and_beyond_it_is_not(flat: Result) -> None:
    def grown(size: int) -> list[str]:
        last = replace(flat.readings[-1], consumer=80 * MIB + size)
        return replace(flat, readings=[*flat.readings[:-1], last]).problems

    assert grown(MOST_GROWTH) == []
    (problem,) = grown(MOST_GROWTH + 1)
    assert problem.startswith("Memory is not flat: consumer: at most 80.0 MiB in the first tenth and 96.0 in the last")


def test_what_happens_between_the_first_tenth_and_the_last_does_not_count(flat: Result) -> None:
    middle = replace(flat.readings[50], store=900 * MIB)
    assert replace(flat, readings=[*flat.readings[:50], middle, *flat.readings[51:]]).problems == []


def test_counts_that_differ_are_problems(flat: Result) -> None:
    assert replace(flat, handled=1_001).problems == ["1,000 published, 1,001 handled and 1,000 settled differ."]
    assert replace(flat, facts=1_999).problems == ["1,999 facts tell of 1,000 messages: each has at least 2."]
