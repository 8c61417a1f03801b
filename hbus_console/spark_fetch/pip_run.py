"""One run of pip, which ends with whoever runs it, and so does all it has started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from hbus_console.supervisor import leash

_CHUNK = 65_536


def run_pip(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    umask: int,
    *,
    on_line: Callable[[str], object],
    on_turn: Callable[[], object],
    turn_s: float,
) -> int:
    """Its exit code. ``on_line`` hears each line it prints; ``on_turn`` is called every ``turn_s`` seconds at least.

    Whatever these raise, a signal's handler too, ends it at once, with everything below it. From the main thread only.
    """
    pip = subprocess.Popen(
        [sys.executable, "-m", "pip", *arguments],
        env=dict(environment),
        umask=umask,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # Nothing here has threads.
        preexec_fn=leash.tie_to_parent(os.getpid()),  # noqa: PLW1509
    )
    assert pip.stdout is not None
    try:
        with pip.stdout as output, selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            rest = b""
            while True:
                if selector.select(turn_s):
                    chunk = os.read(output.fileno(), _CHUNK)
                    if not chunk:
                        break
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        on_line(line.decode("utf-8", "replace"))
                on_turn()
        return pip.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pip.pid, signal.SIGKILL)
        pip.wait()
