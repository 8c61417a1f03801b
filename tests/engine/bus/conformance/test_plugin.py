"""``pytest --hbus-transport``, seen from outside: as a stranger runs it on a transport of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.bus.conformance import plugin
from hbus_console.state import ROOT

#: A transport that says it has settled what it has forgotten to settle.
_FORGETFUL = """
from engine.bus.transports.memory import open_transport as open_memory

def open_transport(config, clock):
    made = open_memory(config, clock)
    make = made.receiver

    def receiver(*arguments, **more):
        receiver = make(*arguments, **more)
        receiver.settle = lambda batch: [True] * len(batch)
        return receiver

    made.receiver = receiver
    return made

number = 7
"""


def kit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "engine.bus.conformance.plugin", "-p", "no:cacheprovider"]
    # Where hbus is installed there is no conftest above it, as there is in this checkout.
    plugins.append("--noconftest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *arguments],
        cwd=folder,
        # Nor has a stranger the plugins of this checkout's tests, whose imports are half of a start.
        env={
            **kept,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.fixture
def sqlite(tmp_path: Path) -> list[str]:
    """The stranger's transport of the examples."""
    return ["--hbus-transport", "examples.hbus_sqlite:open_transport", "--hbus-url", str(tmp_path / "kit.sqlite")]


def test_a_strangers_transport_passes_and_its_matrix_is_written_and_checked(tmp_path: Path, sqlite: list[str]) -> None:
    mine, stale = tmp_path / "transports.md", tmp_path / "stale.md"
    mine.write_text("# Mine\n\n<!-- conformance: generated -->\n<!-- /conformance -->\n")
    # What no run has shown: of this transport, one promise too many.
    stale.write_text(
        "<!-- conformance: generated -->\n|  | `sqlite` |\n|--|--|\n\n| promise | `sqlite` |\n|--|--|\n"
        "| K25: Higher priorities overtake a backlog | kept |\n<!-- /conformance -->\n"
    )
    # Both in one run of the whole, which takes its time: it writes the one and holds the other against it.
    run = kit(tmp_path, *sqlite, "--hbus-matrix", str(mine), "--hbus-matrix-check", str(stale))
    assert "failed" not in run.stdout.splitlines()[-1], run.stdout
    assert "| K1: What was published before anybody subscribed arrives, whole | kept |" in mine.read_text()
    assert "| K25: Higher priorities overtake a backlog | not declared: priority |" in mine.read_text()
    assert run.returncode == 1
    assert f"{stale}: its conformance matrix is not what this run has shown" in run.stdout

    # Nothing else made it fail, and a run of a part proves nothing about the whole.
    run = kit(tmp_path, *sqlite, "-k", "not_delivered_again", "--hbus-matrix-check", str(stale))
    assert run.returncode == 0, run.stdout
    assert "its conformance matrix" not in run.stdout


def test_a_broken_promise_is_named(tmp_path: Path) -> None:
    (tmp_path / "forgetful.py").write_text(_FORGETFUL)
    run = kit(tmp_path, "--hbus-transport", "forgetful:open_transport", "-k", "not_delivered_again")
    assert run.returncode == 1
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("K4 "))
    assert line.endswith("BROKEN (1 of 1)")


def test_what_is_no_transport_is_a_mistake_in_the_command(tmp_path: Path) -> None:
    run = kit(tmp_path, "--hbus-transport", "nowhere:open_transport")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "No module named 'nowhere'. Write module:function." in run.stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:open_transport", "No module named 'nowhere'"),
        ("forgetful:open", "no attribute 'open'"),
        ("forgetful:number", "forgetful:number is no function"),
    ],
)
def test_what_is_no_transport_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    (tmp_path / "forgetful.py").write_text(_FORGETFUL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "forgetful", raising=False)
    with pytest.raises(pytest.UsageError, match=said) as refused:
        plugin.factory_of(target)
    assert str(refused.value).endswith("Write module:function.")
