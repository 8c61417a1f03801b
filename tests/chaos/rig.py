"""An installation in single processes that a test kills and starts at will: a store, a keeper, consumer workers."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from engine.core.clock import SystemClock
from engine.core.store import open_client
from hbus_console.nodes.stamps import Node, read_nodes
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore

_OWN = {"DATABASE_URL", "LEDGER_DATABASE_URL", "DJANGO_SETTINGS_MODULE", "BOOKINGS", "HBUS_ROLE", "HBUS_SLOT"}

#: Processes that stamp; the others are commands.
ROLES = ("keeper", "consumer")


class Rig:
    """Use :meth:`end` whatever happens. Commands and roles run on the rig's own STATE and store.

    With ``store_url`` they run on that one.
    """

    def __init__(self, folder: Path, *, template: Path | None = None, store_url: str = "") -> None:
        self.state = folder / "state"
        if template is None:
            self.state.mkdir()
        else:
            # A state folder that was migrated before.
            shutil.copytree(template, self.state)
        # What was confirmed must survive a kill of the store, or nothing could be counted afterwards.
        self.store = StandaloneStore(folder / "store", fsync="always").start()
        self.prefix = f"rig{secrets.token_hex(4)}"
        inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
        self.environment = {
            **inherited,
            "STATE": str(self.state),
            "REDIS_URL": store_url or self.store.url,
            "HBUS_PREFIX": self.prefix,
            "HBUS_GRACE_S": "5",
        }
        self._processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.kills = 0
        if template is None:
            for database in ("default", "ledger"):
                self.manage("migrate", "--database", database, "--verbosity", "0")

    def start(self, role: str, slot: int = 0) -> subprocess.Popen[bytes]:
        """Start a role's process; does not wait for it."""
        log = (self.state / f"{role}-{slot}.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "manage.py", "role", role, "--slot", str(slot)],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()
        self._processes[role, slot] = process
        return process

    def kill(self, role: str, slot: int = 0) -> None:
        """SIGKILL a role's process."""
        process = self._processes.pop((role, slot))
        process.kill()
        process.wait()
        self.kills += 1

    def stop(self, role: str, slot: int = 0, timeout_s: float = 120) -> tuple[int, float]:
        """SIGTERM a role's process; returns its exit code and how many seconds it took."""
        process = self._processes.pop((role, slot))
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout_s), time.monotonic() - begun

    def log(self, role: str, slot: int = 0) -> str:
        path = self.state / f"{role}-{slot}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def manage(self, *arguments: str, timeout_s: float = 240, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command to its end and return what it printed; its exit code must be one of ``codes``."""
        ended = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert ended.returncode in codes, f"{arguments} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command without waiting for its end; it counts as one of the rig's processes."""
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes[arguments[0], 0] = process  # type: ignore[assignment]
        return process

    def python(self, code: str) -> Any:
        """Run Python inside the rig's Django and return the JSON it printed last."""
        script = (
            f"import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'hbus_console.settings'; django.setup()\n{code}"
        )
        ended = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    def nodes(self) -> dict[str, Node]:
        """``role-slot`` → what it last stamped, living ones only."""
        with open_client(self.environment["REDIS_URL"]) as client:
            found = read_nodes(client, self.prefix, SystemClock())
        return {f"{node.role}-{node.slot}": node for node in found if not node.silent}

    def all_up(self) -> bool:
        """Whether every role that was started has stamped and so got past its checks.

        One that finds the store away at its start ends; here is no supervisor that would start it again.
        """
        stamped = {node.pid for node in self.nodes().values()}
        return stamped >= {process.pid for (role, _), process in self._processes.items() if role in ROLES}

    def consumers(self, name: str = "consumer-0") -> dict[str, Any]:
        """``topic/group`` → status in that worker's last stamp."""
        node = self.nodes().get(name)
        found = node.detail.get("consumers", []) if node else []
        return {f"{one['topic']}/{one['group']}": one for one in found}

    def await_(self, truth: Callable[[], Any], timeout_s: float = 240, what: str = "it") -> Any:
        """Wait for other processes; returns what was true."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if found := truth():
                    return found
            except (redis.RedisError, KeyError):
                # The store is being restarted, or a node has not stamped yet.
                pass
            if time.monotonic() > deadline:
                logs = "\n".join(f"== {role}-{slot}\n{self.log(role, slot)[-3000:]}" for role, slot in self._processes)
                raise AssertionError(f"{what} did not happen in {timeout_s} s\n{logs}")
            time.sleep(0.1)

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.store.kill()
