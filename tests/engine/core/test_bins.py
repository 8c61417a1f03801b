"""Bins by hand are those of whole columns, and a percentile of them is off by 1 % at most."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from engine.core.bins import bin_of, percentile
from engine.pipeline.audit.histogram import bins_of

RANDOM = Random(7)
TIMES = [0.0, 0.999, 1.0, 1.5, 2.0, *(RANDOM.lognormvariate(6, 3) for _ in range(2_000))]


def test_one_at_a_time_they_are_those_of_a_column() -> None:
    assert [bin_of(ms) for ms in TIMES] == bins_of(np.array(TIMES)).tolist()


@pytest.mark.parametrize("part", [0.01, 0.5, 0.99, 1.0])
def test_a_percentile_is_off_by_one_in_a_hundred_at_most(part: float) -> None:
    ordered = sorted(ms for ms in TIMES if ms >= 1)
    wanted = ordered[max(1, int(np.ceil(part * len(ordered)))) - 1]
    found = percentile(Counter(map(bin_of, ordered)), part, ordered[-1])
    assert found == pytest.approx(wanted, rel=0.01)


def test_none_is_more_than_the_longest_and_of_nothing_there_is_none() -> None:
    assert percentile({bin_of(1_000.0): 3}, 0.5, 995.0) == 995.0
    assert percentile({0: 2}, 0.99, 0.4) == 0.0
    assert percentile({}, 0.5, 0.0) is None
