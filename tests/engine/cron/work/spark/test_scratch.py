"""What runs leave lying about goes with them, or with the next one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.cron.work.spark.scratch import scratch_folder


def test_each_run_has_its_own_and_it_goes_with_the_run(tmp_path: Path) -> None:
    parent = tmp_path / "state" / "spark"
    with scratch_folder(parent, "7-1") as first, scratch_folder(parent, "7-1") as second:
        assert first != second
        (first / "deep").mkdir()
        (first / "deep" / "file").touch()
        assert stat.S_IMODE(os.stat(parent).st_mode) == stat.S_IMODE(os.stat(first).st_mode) == 0o700
    assert list(parent.iterdir()) == []


def test_that_of_a_killed_process_goes_when_the_next_is_made(tmp_path: Path) -> None:
    (tmp_path / "7-1-left" / "deep").mkdir(parents=True)
    with scratch_folder(tmp_path, "8-1") as mine, scratch_folder(tmp_path, "9-1") as other:
        assert set(tmp_path.iterdir()) == {mine, other}
