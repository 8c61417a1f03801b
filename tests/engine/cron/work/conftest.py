"""A run's hands, without a worker around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.log_spool import LogSpool

Given = Callable[..., RunContext]


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Given]:
    """A context with these parameters."""
    spools: list[LogSpool] = []

    def make(**parameters: Any) -> RunContext:
        spool = LogSpool(tmp_path / "runs", len(spools) + 1, 1)
        spools.append(spool)
        return RunContext(RunCall(spool.run, "close-of-day", 1, 1_790_000_000, 7, "run-1", parameters), spool)

    yield make
    for spool in spools:
        spool.close()
