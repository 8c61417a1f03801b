"""``make demo`` on a machine where nothing runs: it brings its own installation, and takes it away again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from examples.hotel import figures
from hbus_console.state import ROOT
from tests.installation import RunningInstallation

pytestmark = pytest.mark.chaos

PASSWORD = re.compile(r"sign in as admin with (\S+)")


@pytest.fixture
def nothing_runs(tmp_path: Path) -> RunningInstallation:
    """Only its environment is used: nobody starts it."""
    found = RunningInstallation(tmp_path / "state")
    found.more["BOOKINGS"] = ""
    return found


def leftovers(state: Path) -> list[str]:
    """Processes that work on that STATE."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("STATE") == str(state):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def demo(at: RunningInstallation, *more: str) -> subprocess.CompletedProcess[str]:
    return at.manage("hotel_demo", "--fast", "--limit", "60", *more, timeout_s=240)


@pytest.mark.whole
def test_it_runs_to_its_end_twice_and_leaves_nothing_running(nothing_runs: RunningInstallation) -> None:
    first = demo(nothing_runs)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "All settled." in first.stdout
    assert "Equal: " in first.stdout
    assert "simulated-1-60-000021-ended" in first.stdout
    assert "hotel_partner add-room L" in first.stdout
    assert "146 slots demanded, 146 decided just now" in first.stdout
    assert "2 closes were published, and heard 6 times of 6" in first.stdout
    assert "Every slot is accounted for." in first.stdout
    assert "The audit is clean." in first.stdout
    assert leftovers(nothing_runs.state) == []
    # The first start's password was shown, and stands in no file.
    (password,) = PASSWORD.findall(first.stdout)
    for file in nothing_runs.state.rglob("*"):
        assert not file.is_file() or password.encode() not in file.read_bytes(), file
    second = demo(nothing_runs, "--json")
    assert second.returncode == 0, second.stderr
    report = json.loads(second.stdout.splitlines()[-1])
    assert (report["published"], report["deduplicated"]) == (0, report["events"])
    assert report["holds"] is True
    assert [one["room"] for one in report["poison"]] == ["L"]
    assert (report["night"]["decided"], report["night"]["heard"], report["night"]["holds"]) == (0, 6, True)
    proof = report["proof"]
    assert (proof["topics"], proof["verdict"], proof["says"], proof["holds"]) == (6, "clean", [], True)
    # Invoices and closes too.
    assert proof["published"] == proof["archived"] > report["events"]
    assert proof["dead"] == 1
    assert report["figures"] == dict.fromkeys(figures.READS, True)
    verified = nothing_runs.manage("hotel_verify", "--limit", "60", "--json", timeout_s=60)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    slots = json.loads(verified.stdout)["slots"]
    assert (slots["demanded"] >= 146, slots["equal"], slots["differences"]) == (True, True, [])


def test_a_wrong_read_model_ends_with_one(nothing_runs: RunningInstallation) -> None:
    assert demo(nothing_runs).returncode == 0
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import django\ndjango.setup()\nfrom examples.hotel.models import RoomNights\n"
            "RoomNights.objects.filter(pk=RoomNights.objects.first().pk).update(sold=99)",
        ],
        cwd=ROOT,
        env={**nothing_runs.environment, "DJANGO_SETTINGS_MODULE": "hbus_console.settings"},
        check=False,
    )
    assert ended.returncode == 0
    again = demo(nothing_runs)
    assert again.returncode == 1
    assert "NOT equal: 1 of" in again.stdout
    assert "99 found" in again.stdout
