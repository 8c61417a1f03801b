"""One at a time: threads that lose their turn at work, what is raised there, and interrupts at any instruction."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType

import pytest

from engine.quota import LocalLimiter
from engine.quota.baton import Baton

THREADS = 8


def test_nobody_is_at_it_while_another_is() -> None:
    baton, counted = Baton(), [0]

    def count() -> None:
        before = counted[0]
        # A call that ends is where a thread may lose its turn.
        time.monotonic()
        counted[0] = before + 1

    def work() -> None:
        for _ in range(500):
            baton.run(count)

    before, threads = sys.getswitchinterval(), [threading.Thread(target=work) for _ in range(THREADS)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert counted == [500 * THREADS]


def test_what_is_raised_at_work_comes_out_and_others_go_on() -> None:
    baton = Baton()
    for error in (IndexError, KeyError):
        with pytest.raises(error):
            baton.run(_raise, error)
    assert baton.run(lambda: "done") == "done"


class _Interrupt(Exception):
    pass


def test_an_interrupt_at_any_moment_leaves_it_free_for_others() -> None:
    limiter, interrupts = LocalLimiter(1e9, 1e9), 0

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise _Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        ends_at = time.monotonic() + 1.0
        while time.monotonic() < ends_at:
            try:
                signal.setitimer(signal.ITIMER_REAL, 20e-6)
                while True:
                    limiter.allow()
                    limiter.tokens()
            except _Interrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(limiter.allow()), daemon=True)
    asking.start()
    asking.join(10)
    assert answers == [True]
    assert interrupts > 100


def _raise(error: type[Exception]) -> None:
    raise error
