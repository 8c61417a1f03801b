"""A whole installation under test: ``manage.py up`` with a state folder and a port of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hbus_console.state import ROOT
from hbus_console.supervisor.store import free_port


@dataclass
class RunningInstallation:
    """Start with :meth:`start`; whoever starts it calls :meth:`end`."""

    state: Path
    roles: str = ""
    port: int = field(default_factory=free_port)
    more: dict[str, str] = field(default_factory=dict)
    #: A state folder, copied before the first start: what that one would have prepared is there already.
    template: Path | None = None
    #: SIGKILLed at the end, whatever happened in between.
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """For commands that are to work on this installation."""
        inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
        return {**inherited, "STATE": str(self.state), "PORT": str(self.port), "ROLES": self.roles, **self.more}

    def start(self, timeout_s: float = 240) -> RunningInstallation:
        """Run ``manage.py up`` and return once all roles are ready."""
        if self.template is not None and not self.state.exists():
            shutil.copytree(self.template, self.state)
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "up.out").open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + timeout_s
        while "All is ready" not in self.output():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise AssertionError(f"it did not become ready:\n{self.output()[-5000:]}")
            time.sleep(0.05)
        return self

    def output(self) -> str:
        """What it printed so far."""
        path = self.state / "up.out"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def manage(self, *arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        """Run another command on this installation."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        """``manage.py status --json``."""
        found: dict[str, Any] = json.loads(self.manage("status", "--json").stdout)
        return found

    def role(self, name: str) -> dict[str, Any]:
        """The first line of status about that role."""
        return next(line for line in self.status()["lines"] if line["role"] == name)

    def family(self) -> list[psutil.Process]:
        """The supervisor's children, whole trees."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Ask it to stop and return how many seconds it took."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(timeout=120)
        return time.monotonic() - begun

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process is None:
            return
        family = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = self.family()
        self.process.kill()
        self.process.wait()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()


#: Set by the test run for itself; an installation makes its own.
_OWN = {
    *("REDIS_URL", "DATABASE_URL", "LEDGER_DATABASE_URL", "DJANGO_SETTINGS_MODULE", "STATE", "PORT", "ROLES"),
    "SPARK_CONF_DIR",
}
