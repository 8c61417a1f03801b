"""What one call costs: processor nanoseconds of a loop of them, without those of the loop."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import NamedTuple

#: Something to be asked many times, which says whether it admits.
Ask = Callable[[], object]


class CallCost(NamedTuple):
    """Of one call, and how many of all were refused."""

    ns: float
    refused: int = 0


def alone(ask: Ask, count: int) -> CallCost:
    """In one thread: the processor time of that thread. What other processes and threads take is not in it."""
    with without_collector():
        began = time.thread_time_ns()
        _bare(count)
        ready = time.thread_time_ns()
        refused = _ask(ask, count)
        ended = time.thread_time_ns()
    return CallCost(((ended - ready) - (ready - began)) / count, refused)


def together(ask: Ask, count: int, threads: int) -> CallCost:
    """``count`` calls shared by ``threads``: the processor time of the process, so that what they cost each other is in
    it, and their background threads.
    """
    share = count // threads
    refused: list[int] = []
    with without_collector():
        bare = _in_threads(lambda: _bare(share), threads)
        took = _in_threads(lambda: refused.append(_ask(ask, share)), threads)
    return CallCost((took - bare) / (share * threads), sum(refused))


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's garbage collector is off for as long as the block lasts; it is run before."""
    gc.collect()
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _ask(ask: Ask, count: int) -> int:
    refused = 0
    for _ in repeat(None, count):
        if not ask():
            refused += 1
    return refused


def _bare(count: int) -> int:
    """The same without the asking."""
    refused, admitted = 0, True
    for _ in repeat(None, count):
        if not admitted:
            refused += 1
    return refused


def _in_threads(work: Callable[[], object], threads: int) -> int:
    """The processor time of this process until all have done it."""
    running = [threading.Thread(target=work) for _ in range(threads)]
    began = time.process_time_ns()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return time.process_time_ns() - began
