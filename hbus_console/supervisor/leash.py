"""Nothing outlives its supervisor: how a child learns that its parent has gone, whatever the parent died of."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.5
#: The kernel itself tells the child.
KERNEL_TELLS = sys.platform == "linux"

_libc = ctypes.CDLL(None, use_errno=True) if KERNEL_TELLS else None


def tie_to_parent(parent: int) -> Callable[[], None]:
    """What a child runs between fork and exec so that the kernel sends it SIGTERM when ``parent`` dies.

    The tie is to the thread that forks: start children from the main thread only.
    """

    def tie() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(0)

    return tie


def watch_parent(parent: int, grace_s: float) -> threading.Thread:
    """Make sure that this process, leader of its own group, ends with ``parent``.

    Once the parent has gone it is asked to stop (SIGTERM), and after ``grace_s`` its whole group is killed: the store
    may have gone too, and a drain would wait for it for ever.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        if not KERNEL_TELLS:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace_s)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    thread = threading.Thread(target=watch, name="parent-watch", daemon=True)
    thread.start()
    return thread


def run_on_leash(parent: int, command: Sequence[str]) -> int:
    """Run a program that is not ours, and end it with ``parent``; for systems whose kernel does not tell."""
    child = subprocess.Popen(list(command))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: child.send_signal(received))
    while os.getppid() == parent:
        try:
            return child.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            continue
    child.terminate()
    return child.wait()


if __name__ == "__main__":
    raise SystemExit(run_on_leash(int(sys.argv[1]), sys.argv[2:]))
