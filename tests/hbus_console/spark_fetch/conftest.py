"""A Python of its own to fetch into, an index to fetch from, and a process in the place of the supervisor."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from hbus_console.spark_fetch import progress
from hbus_console.spark_fetch.progress import Progress
from hbus_console.state import ROOT
from hbus_console.supervisor import state
from tests.hbus_console.spark_fetch.index import Index, wheel


@dataclass
class World:
    """What a fetch has around it."""

    folder: Path
    index: Index
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def at(self) -> Path:
        return self.folder / "state"

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return self.folder / "venv" / ".spark-1"

    @property
    def packages(self) -> Path:
        (found,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        return found

    def supervisor(self, *, ready: bool = True) -> subprocess.Popen[bytes]:
        """A process that lives, and what it says of a role."""
        process = self.start(["sleep", "300"])
        self.tell(process, ready=ready)
        return process

    def tell(self, process: subprocess.Popen[bytes], *, ready: bool = True, word: str = state.READY) -> None:
        role = state.RoleState("web", 0, word, ready_ms=1 if ready else 0)
        state.write(self.at, state.Snapshot(process.pid, 1, "", "", True, [role]))

    def fetch(self, beside: subprocess.Popen[bytes] | None = None, user: str = "") -> subprocess.Popen[bytes]:
        words = [str(self.python), "-m", "hbus_console.spark_fetch", str(self.stamp)]
        words += ["--requirements", str(self.folder / "needs"), "--constraints", os.devnull]
        words += ["--beside", str(beside.pid)] if beside else []
        kept = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
        own = {"PIP_INDEX_URL": self.index.url(user), "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
        own |= {"PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "1", "STATE": str(self.at), "PYTHONPATH": ""}
        return self.start(words, {**kept, **own})

    def start(self, words: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        output = subprocess.PIPE if environment else None
        process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def progress(self, until: Callable[[Progress | None], object]) -> Progress | None:
        """The first that ``until`` takes."""
        give_up = time.monotonic() + 60
        while not until(found := progress.read(self.at)):
            assert time.monotonic() < give_up, found
            time.sleep(0.02)
        return found

    def left(self) -> list[Path]:
        """What a fetch keeps on its way beside its stamp, but for its lock."""
        return [path for path in (self.folder / "venv").glob(".fetching-spark*") if path.suffix != ".lock"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Needs ``toyspark``, which its index offers."""
    venv.create(tmp_path / "venv", with_pip=False)
    found = World(tmp_path, Index())
    # pip and what the fetch imports; what lies there is installed as far as this Python knows.
    (found.packages / "beside.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "needs").write_text("toyspark==1.0\n")
    found.index.wheels["toyspark", "1.0"] = wheel("toyspark", "1.0")
    yield found
    found.index.close()
    for process in found.started:
        with suppress(psutil.NoSuchProcess):
            for below in psutil.Process(process.pid).children(recursive=True):
                below.kill()
        process.kill()
        process.communicate()
