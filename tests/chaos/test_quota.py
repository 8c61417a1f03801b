"""Thousands of random histories of nodes that share limits, on both processors; what was found, in figures.

``make chaos PYTEST="-k quota"`` plays the whole number.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from engine.quota.simulation.world import play
from tests.form import size

pytestmark = pytest.mark.chaos

SEEDS = size(20_000, short=400)
#: The tests of the engine play those below.
FIRST = 10_000
AT_ONCE, PROCESSES = 100, 2


def test_no_history_admits_what_it_must_not_or_refuses_what_there_is() -> None:
    began, cpu_s, told = time.perf_counter(), 0.0, Counter[str]()
    starts = range(FIRST, FIRST + SEEDS, AT_ONCE)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for counts, failures, used_s in pool.map(histories, starts):
            assert failures == []
            told.update(counts)
            cpu_s += used_s
    took_s = time.perf_counter() - began
    print(
        f"\n{SEEDS:,} histories in {took_s:.0f} s ({60 * SEEDS / took_s:,.0f} a minute; {1000 * cpu_s / SEEDS:.1f} ms"
        f" of a processor each): {told['acts']:,} acts, {told['faults']:,} faults, {told['sold']:,} tokens sold,"
        f" {told['spent']:,} spent, {told['alone']:,} spent alone"
    )
    # Otherwise nothing was tried.
    assert min(told["faults"], told["spent"], told["alone"]) > SEEDS


def histories(start: int) -> tuple[Counter[str], list[str], float]:
    """Of so many seeds: figures, what must never be, and how long a processor took."""
    logging.disable(logging.ERROR)
    began, told, failures = time.process_time(), Counter[str](), []
    for seed in range(start, start + AT_ONCE):
        world, found = play(seed)
        judge = world.judge
        # The last thing that is told is that nothing goes wrong any more.
        told.update(faults=len(world.told) - 1, acts=world.timeline.acts)
        told.update(sold=judge.sold, spent=judge.spent, alone=judge.alone)
        if found:
            failures.append("\n".join([f"seed {seed}", *world.told, *found]))
    return told, failures, time.process_time() - began
