"""An nsqd of one's own for a test or a measurement, under the command line of the embedded one."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
from pathlib import Path

from hbus_console.supervisor import nsqd
from hbus_console.supervisor.store import free_port


class StandaloneNsqd:
    """An nsqd process that its owner may stop, kill and start again on the same ports and data.

    ``options`` are added to its command line. Raises ``ConfigurationError`` where it cannot be built.
    """

    def __init__(self, folder: Path, *, lookupd: str = "", node_id: int = -1, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.tcp_port, self.http_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.http_port}"
        self._command = nsqd.command(
            nsqd.build(_silent),
            folder,
            tcp_port=self.tcp_port,
            http_port=self.http_port,
            lookupd=lookupd,
            node_id=node_id,
        )
        self._command += options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> StandaloneNsqd:
        """Start (again) and return once it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_for(self.http_port)
        return self

    @property
    def pid(self) -> int:
        """Of the running process. Raises ``RuntimeError`` before the start."""
        if self._process is None:
            raise RuntimeError("nsqd was not started")
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: what a crash would do."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP; returns once it stands still, for until then it goes on answering."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self._process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


class StandaloneLookupd:
    """An nsqlookupd, likewise."""

    def __init__(self) -> None:
        self.tcp_port, self.http_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.http_port}"
        self.tcp_address = f"127.0.0.1:{self.tcp_port}"
        nsqd.build(_silent)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> StandaloneLookupd:
        """Start and return once it answers."""
        self._process = subprocess.Popen(
            [
                str(nsqd.folder() / "nsqlookupd"),
                f"-tcp-address={self.tcp_address}",
                f"-http-address=127.0.0.1:{self.http_port}",
                "-broadcast-address=127.0.0.1",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.http_port)
        return self

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def wait_for(http_port: int, patience_s: float = 20.0) -> None:
    """Return once ``/ping`` answers on loopback; raises ``OSError`` when it never does."""
    deadline = time.monotonic() + patience_s
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=2)
        try:
            connection.request("GET", "/ping")
            if connection.getresponse().status == 200:
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
        finally:
            connection.close()
        time.sleep(0.02)


def _silent(_: str) -> None:
    return
