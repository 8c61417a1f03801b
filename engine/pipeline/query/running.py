"""A query in a process of its own, from whoever has it run: ended when it takes too long, or when it is not wanted."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.core.clock import Clock, SystemClock
from engine.core.prepared import prepared
from engine.pipeline.query.spec import FOLDER, MOST_BYTES, QueryAnswer, QuerySpec

#: How long its process may take to begin, seconds: that is no time of the query's.
_BEGINS_WITHIN_S = 30
#: How often it is asked whether the query is still wanted, seconds.
_ASKED_EVERY_S = 0.1
#: An answer as JSON: each byte of a text may take six, and each number more than it counts.
_MOST_ANSWER = 8 * MOST_BYTES
_ROOT = Path(__file__).resolve().parents[3]


def run_query(
    spec: QuerySpec, module: str, go_on: Callable[[], None] = lambda: None, clock: Clock | None = None
) -> QueryAnswer:
    """What ``python -m module`` answers, which is to call :func:`~engine.pipeline.query.child.serve`. ``go_on`` is
    called again and again, and what it raises ends the query."""
    time = clock or SystemClock()
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            # Neither addresses nor secrets, which this process may have.
            env={
                "PATH": os.defpath,
                "PYTHONPATH": str(_ROOT),
                "LANG": "C.UTF-8",
                "ARROW_DEFAULT_MEMORY_POOL": "system",
            },
            start_new_session=True,
        )
        try:
            text = _asked(child, spec, go_on, time)
        except _TooLong as error:
            return error.answer
        finally:
            _end(child)
    try:
        return msgspec.json.decode(text, type=prepared(QueryAnswer))
    except msgspec.DecodeError:
        return QueryAnswer(error="Its process ended without an answer: it took too much memory, or was ended.")


class _TooLong(Exception):
    def __init__(self, answer: QueryAnswer) -> None:
        self.answer = answer


def _asked(child: subprocess.Popen[bytes], spec: QuerySpec, go_on: Callable[[], None], time: Clock) -> bytes:
    """All that it says, of which the first is that it begins. Raises :class:`_TooLong`."""
    assert child.stdin is not None
    assert child.stdout is not None
    over = time.monotonic() + _BEGINS_WITHIN_S
    # One that ended at once has no ears; what it said is said below.
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(msgspec.json.encode(spec) + b"\n")
        child.stdin.flush()
    said = bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        while time.monotonic() < over:
            go_on()
            if ready.select(_ASKED_EVERY_S):
                part = os.read(child.stdout.fileno(), 1 << 16)
                if not part or len(said) > _MOST_ANSWER:
                    return bytes(said)
                if not said:
                    over = time.monotonic() + spec.seconds
                said += part
    if not said:
        raise _TooLong(QueryAnswer(error=f"It did not begin within {_BEGINS_WITHIN_S} s. Try again.", begun=False))
    raise _TooLong(
        QueryAnswer(error=f"It took longer than {spec.seconds} s and was ended. Ask for fewer days or topics.")
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """It and all that it may have begun."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            # What was not taken goes with it.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
