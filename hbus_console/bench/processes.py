"""Measured work runs in processes of its own: each says it is ready, waits for the start, and reports its times."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hbus_console.state import ROOT


class Child:
    """One measured process: a ``program`` (a module of ours, or a file) with its task as one JSON argument.

    :func:`wait_for_go` and :func:`report` are the other end.
    """

    def __init__(self, program: str | Path, arguments: Mapping[str, Any]) -> None:
        command = [str(program)] if isinstance(program, Path) else [sys.executable, "-m", program]
        self._process = subprocess.Popen(
            [*command, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            # What it says in passing has no place among the figures.
            env={"HBUS_LOG_LEVEL": "WARNING", **os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.expect("ready")

    def expect(self, word: str) -> str:
        """What it says behind ``word``, which begins its next line. Raises ``RuntimeError`` for any other line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line.startswith(word):
            self._process.wait(10)
            raise RuntimeError(
                f"a measured process said {line!r} instead of {word!r} (exit {self._process.returncode})"
            )
        return line.removeprefix(word).strip()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether its work is over: it has reported, or died."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0]) or self._process.poll() is not None

    def check(self) -> None:
        """Raises ``RuntimeError`` when it has ended with an error."""
        if self._process.poll():
            raise RuntimeError(f"a measured process ended with exit {self._process.returncode}")

    def go(self) -> None:
        """Let it start."""
        self.tell("go")

    def tell(self, word: str) -> None:
        """Write one line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it, whatever it does; nothing when it has ended."""
        self._process.kill()
        self._process.wait()

    def result(self) -> dict[str, Any]:
        """Wait for its report."""
        report: dict[str, Any] = json.loads(self.expect("done"))
        self._process.wait(30)
        return report


class Span(NamedTuple):
    """What several processes did together, in wall seconds of this machine."""

    messages: int
    started: float
    ended: float
    #: Processor seconds of all of them between the start signal and the report, where the program tells them.
    cpu_s: float


def together(program: str | Path, arguments: Sequence[Mapping[str, Any]]) -> Span:
    """Start one process per entry of ``arguments`` at once and add up what they report."""
    children = [Child(program, one) for one in arguments]
    for child in children:
        child.go()
    reports = [child.result() for child in children]
    return Span(
        messages=sum(one["count"] for one in reports),
        started=min(one["started"] for one in reports),
        ended=max(one["ended"] for one in reports),
        cpu_s=sum(one.get("cpu_s", 0.0) for one in reports),
    )


class Work(NamedTuple):
    """What is to be measured, with everything it needs made ready: a program, and the tasks of its processes."""

    program: str | Path
    tasks: Sequence[Mapping[str, Any]]

    def run(self) -> Span:
        """Do it once."""
        return together(self.program, self.tasks)

    def rate(self) -> float:
        """Do it once: the count of all processes over the whole span, per second."""
        span = self.run()
        return span.messages / (span.ended - span.started)


def rate(program: str | Path, arguments: Sequence[Mapping[str, Any]]) -> float:
    """The count of all processes over the whole span, per second."""
    return Work(program, arguments).rate()


def wait_for_go() -> None:
    """The child's end: say ready, return at the start signal."""
    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        raise SystemExit("no start signal")


def report(**figures: Any) -> None:
    """The child's end: hand the figures over."""
    print("done " + json.dumps(figures), flush=True)
