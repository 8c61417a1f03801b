"""A Valkey of one's own for a test or a measurement, under the configuration of the embedded store."""

from __future__ import annotations

import secrets
import subprocess
import time
from pathlib import Path

import redis

from hbus_console import remembered
from hbus_console.supervisor import store


class StandaloneStore:
    """A Valkey process that its owner may stop, kill and start again; its data stays in ``folder``.

    ``fsync="always"`` for who kills it and counts what was confirmed; see :func:`store.write_config`.
    """

    def __init__(self, folder: Path, *, fsync: str = "everysec") -> None:
        self.folder = folder
        self.port = store.free_port()
        self.password = secrets.token_hex(16)
        self.url = remembered.loopback_url(self.port, self.password)
        self._binary = store.find_binary()
        self._config = store.write_config(folder, port=self.port, password=self.password, fsync=fsync)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> StandaloneStore:
        """Start (again) and return once it answers."""
        self._process = subprocess.Popen(
            [str(self._binary), str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Python ignores SIGXFSZ, and so does this server then: a bound on the size of its files is a full disk to
            # it, and not its end.
            restore_signals=False,
        )
        client = redis.Redis.from_url(self.url)
        # It answers no sooner than it has read all that it kept.
        deadline = time.monotonic() + 120
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                client.close()
                return self

    @property
    def pid(self) -> int:
        """Of the running process. Raises ``RuntimeError`` before the start."""
        if self._process is None:
            raise RuntimeError("the store was not started")
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: what a crash would do."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
