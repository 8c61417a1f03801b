"""A program as work: no shell, an environment of few words, and nothing of it outlives the run."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.error_text import words_of
from engine.cron.work.call import LastCall, RunCall, RunContext, WorkOutcome

_LEASH = Path(__file__).with_name("leash.py")
#: Between SIGTERM and SIGKILL, in seconds.
GRACE_S = 5.0
#: What a program is told of the worker's environment: neither addresses nor secrets.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
#: Exit codes by which a shell says that a program could not be run at all.
_NEVER_RUNS = (126, 127)
#: Why a program was ended that nobody asked to end.
STOOD_STILL = (
    "its worker stood still, or the store did not answer it, until its lease or its time was over, and its program was"
    " ended"
)
#: How soon a stop, and a renewal of the lease, are passed on.
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: a path, or a name that is looked for in PATH, with its arguments."""

    command: Sequence[str]
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = GRACE_S


def run_program(context: RunContext, program: Program) -> WorkOutcome:
    """Run it to its end. Its output is appended to the run's log by itself.

    It is given HBUS_RUN, HBUS_JOB, HBUS_SLOT, HBUS_ATTEMPT, HBUS_EPOCH, HBUS_CORRELATION, HBUS_SHARD, HBUS_SHARDS, and
    the parameters as JSON in HBUS_PARAMETERS. When it is to stop, its whole process tree gets SIGTERM, and SIGKILL
    after the grace, or when its lease is over, if that comes first, and the log says what these ended; when the worker
    dies, SIGKILL at once. When the worker only stands still, the same happens by itself before its lease is over, or
    once its time is.
    """
    if not program.command:
        return WorkOutcome(False, "it names no program", again=False)
    control_read, control_write = os.pipe()
    # Nobody waits for a leash that stands still itself.
    os.set_blocking(control_write, False)
    report_read, report_write = os.pipe()
    told = context.last_call
    try:
        leash = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(_LEASH)),
                *(str(control_read), str(report_write), str(program.grace_s), repr(told.asked), repr(told.over)),
                *program.command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=context.log.fileno(),
            stderr=context.log.fileno(),
            cwd=program.folder,
            env=_environment(context.call, program),
            pass_fds=(control_read, report_write),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # What no system takes, such as a NUL, is told by Python itself.
        for pipe in (control_read, control_write, report_read, report_write):
            os.close(pipe)
        return WorkOutcome(False, f"its program cannot be started: {words_of(error)}", again=False)
    os.close(control_read)
    os.close(report_write)
    try:
        said = _report(context, report_read, _Orders(control_write, told))
    finally:
        # Its end is the order to end, should something have been raised here.
        os.close(control_write)
        os.close(report_read)
        leash.wait()
    return _outcome(context, said)


def _environment(call: RunCall, program: Program) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    told = {
        "HBUS_RUN": str(call.run),
        "HBUS_JOB": call.job,
        "HBUS_SLOT": str(call.slot),
        "HBUS_ATTEMPT": str(call.attempt),
        "HBUS_EPOCH": str(call.epoch),
        "HBUS_CORRELATION": call.correlation_id,
        "HBUS_SHARD": str(call.shard.number),
        "HBUS_SHARDS": str(call.shard.of),
        "HBUS_PARAMETERS": json.dumps(dict(call.parameters)),
    }
    return passed | dict(program.environment) | told


class _Orders:
    """What is said to the leash, once each."""

    def __init__(self, control: int, told: LastCall) -> None:
        self._control = control
        self._told = told
        self._ends = False

    def give(self, context: RunContext) -> None:
        """What it has not been told yet."""
        if context.is_stopped() and not self._ends:
            self._ends = self._said("end")
        last_call = context.last_call
        if last_call != self._told and self._said(f"until {last_call.asked!r} {last_call.over!r}"):
            self._told = last_call

    def _said(self, order: str) -> bool:
        # It may have ended just now; and where it does not listen, it is told again.
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._control, f"{order}\n".encode())
            return True
        return False


def _report(context: RunContext, report: int, orders: _Orders) -> str:
    said = b""
    while True:
        orders.give(context)
        ready, _, _ = select.select([report], [], [], POLL_S)
        if ready:
            piece = os.read(report, 1_000)
            if not piece:
                return said.decode("utf-8", "replace")
            said += piece


def _outcome(context: RunContext, said: str) -> WorkOutcome:
    said, _, ended = said.partition("\n")
    if ended:
        context.log.write(f"hbus: {ended}\n")
    word, _, rest = said.partition(" ")
    if context.why_stopped:
        return WorkOutcome(False, context.why_stopped)
    if (word, rest) == ("exit", "0"):
        return WorkOutcome(True)
    match word:
        case "exit":
            why, again = f"it ended with exit code {rest}", int(rest) not in _NEVER_RUNS
        case "signal":
            why, again = f"it was ended by {_signal_name(int(rest))}", True
        case "overdue":
            why, again = STOOD_STILL, True
        case "error":
            why, again = f"its program cannot be started: {rest}", False
        case _:
            why, again = "what held its program was killed, and nobody knows how it ended", True
    return WorkOutcome(False, why, again=again)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Those between the named ones, which programs use among themselves.
        return f"signal {number}"
