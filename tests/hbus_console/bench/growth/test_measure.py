"""The measuring itself, on a real store, and the command that tells what follows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from django.core.management import CommandError, call_command

from engine.core.sections import section
from hbus_console.bench.growth import costs
from hbus_console.bench.management.commands import growth
from hbus_console.state import ROOT
from tests.hbus_console.bench.growth.test_plan import COSTS

MESSAGES = 2_000


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Costs and document of the test's own."""
    costs.save(tmp_path / "growth.json", COSTS)
    (tmp_path / "scale.md").write_text("# Scale\n\n<!-- growth: generated -->\n<!-- /growth -->\n")
    monkeypatch.setattr(growth, "COSTS", tmp_path / "growth.json")
    monkeypatch.setattr(growth, "DOCUMENT", tmp_path / "scale.md")
    return tmp_path


def test_everything_a_message_costs_is_measured(tmp_path: Path) -> None:
    # In a process of its own: what is measured starts others, under the settings of an installation.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "PYTEST", "COV"))}
    program = f"""
import django, msgspec
django.setup()
from hbus_console.bench import bus
from hbus_console.bench.growth.measure import measure
with bus.measured(count={MESSAGES}, peer_count=1, samples=1) as rig:
    print(msgspec.json.encode(measure(rig)).decode())
"""
    environment = {**kept, "STATE": str(tmp_path), "HBUS_APPS": "", "DJANGO_SETTINGS_MODULE": "hbus_console.settings"}
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = msgspec.json.decode(run.stdout, type=costs.Costs)
    assert found.size == 200
    # A message carries its body and its envelope, in the stream and in the log
    assert found.stored_b > found.size
    assert found.logged_publish_b > found.size
    assert found.logged_consume_b > 0
    assert found.booked_b > 50
    for name in ("publish_us", "consume_us", "store_publish_us", "store_consume_us", "booked_us"):
        assert 0.5 < getattr(found, name) < 5_000, name
    assert found.measured_rate > 100
    assert f"{MESSAGES:,} messages of 200 B" in found.conditions


def test_the_command_tells_and_keeps_what_follows(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("growth", per_day=864e6, peak=2.0, save=True)
    said = capsys.readouterr().out.strip()
    assert section((places / "scale.md").read_text(), "growth") == said
    assert "864,000,000 messages a day: 10,000 a second on average, 20,000 at the peak" in said
    assert "### Where it bends" in said
    assert "| the stores fail over in thirty seconds |" in said
    assert costs.load(places / "growth.json") == COSTS


def test_a_demand_that_cannot_be_is_refused(places: Path) -> None:
    with pytest.raises(CommandError, match=r"peak is 0\.5") as refused:
        call_command("growth", peak=0.5)
    assert refused.value.returncode == 2
