"""A standalone cluster on loopback: a master and a worker, started elsewhere, that know nothing of hbus."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from engine.cron.work.spark.installed import InstalledSpark

_CLASSES = "org.apache.spark.deploy"


class StandaloneCluster:
    """Ready once it is made. Close it."""

    def __init__(self, spark: InstalledSpark, folder: Path) -> None:
        port, pages = (_free_port() for _ in range(2))
        self.master = f"spark://127.0.0.1:{port}"
        self.folder = folder
        self._pages = pages
        self._environment = {
            "PATH": os.environ["PATH"],
            "SPARK_HOME": str(spark.home),
            "JAVA_HOME": str(spark.java.home_for_spark(folder)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
            "TMPDIR": str(folder),
        }
        program = str(spark.home / "bin" / "spark-class")
        at = ["--host", "127.0.0.1"]
        self._started = [
            self._start(program, f"{_CLASSES}.master.Master", *at, "--port", str(port), "--webui-port", str(pages))
        ]
        self._wait(workers=0)
        words = [*at, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / "work")]
        self._started.append(self._start(program, f"{_CLASSES}.worker.Worker", *words, self.master))
        self._wait(workers=1)

    def close(self) -> None:
        """Nothing of it is left, executors neither."""
        for process in reversed(self._started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "cluster.log").open("ab") as log:
            return subprocess.Popen(
                words, cwd=self.folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def _wait(self, workers: int) -> None:
        give_up = time.monotonic() + 120
        while True:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._pages}/json/", timeout=5) as said:
                if json.load(said)["aliveworkers"] == workers:
                    return
            assert time.monotonic() < give_up, (self.folder / "cluster.log").read_text()
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
