"""``HBUS_TRANSPORT=nsq`` alone moves the demonstration to NSQ, on a first start and on an installation that exists."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from examples.hotel import figures
from tests.chaos.test_hotel_demo import leftovers
from tests.installation import RunningInstallation
from tests.nsq import needs_nsqd

pytestmark = [pytest.mark.chaos, pytest.mark.xdist_group("installation")]


@pytest.fixture
def nothing_runs(tmp_path: Path) -> RunningInstallation:
    """Only its environment is used: nobody starts it."""
    needs_nsqd()
    found = RunningInstallation(tmp_path / "state")
    found.more["BOOKINGS"] = ""
    return found


def demo(at: RunningInstallation, *more: str) -> dict[str, Any]:
    ended = at.manage("hotel_demo", "--fast", "--json", *more, timeout_s=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return report


def assert_clean(report: dict[str, Any]) -> None:
    """All of it is archived, by way of spools where it went by NSQ, and the audit found nothing."""
    proof = report["proof"]
    assert (proof["topics"], proof["verdict"], proof["says"], proof["holds"]) == (6, "clean", [], True)
    assert proof["published"] == proof["archived"] > report["events"]
    assert report["figures"] == dict.fromkeys(figures.READS, True)


def verify(at: RunningInstallation, limit: int) -> subprocess.CompletedProcess[str]:
    return at.manage("hotel_verify", "--limit", str(limit), timeout_s=60)


def test_the_demonstration_runs_on_nsq_from_its_first_start(nothing_runs: RunningInstallation) -> None:
    nothing_runs.more["HBUS_TRANSPORT"] = "nsq"

    first = demo(nothing_runs, "--limit", "60")

    assert first["holds"] is True
    assert first["published"] == first["events"]
    assert (nothing_runs.state / "nsqd").is_dir()
    assert_clean(first)
    assert list((nothing_runs.state / "lake" / "spool").glob("*/*.spool"))
    assert leftovers(nothing_runs.state) == []
    again = demo(nothing_runs, "--limit", "60")
    assert (again["published"], again["deduplicated"], again["holds"]) == (0, again["events"], True)


def test_an_installation_on_redis_streams_goes_on_on_nsq(nothing_runs: RunningInstallation) -> None:
    assert demo(nothing_runs, "--limit", "30")["holds"] is True
    assert not (nothing_runs.state / "nsqd").exists()

    nothing_runs.more["HBUS_TRANSPORT"] = "nsq"
    switched = demo(nothing_runs, "--limit", "60")

    assert switched["holds"] is True
    assert_clean(switched)
    assert (nothing_runs.state / "nsqd").is_dir()
