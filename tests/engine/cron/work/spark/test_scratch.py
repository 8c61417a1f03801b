"""What runs leave lying about goes with them, or when it is looked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.cron.work.spark.scratch import remove_left_behind, scratch_folder


def test_each_run_has_its_own_and_it_goes_with_the_run(tmp_path: Path) -> None:
    parent = tmp_path / "state" / "spark"
    with scratch_folder(parent, "7-1") as first, scratch_folder(parent, "7-1") as second:
        assert first != second
        (first / "deep").mkdir()
        (first / "deep" / "file").touch()
        assert stat.S_IMODE(os.stat(parent).st_mode) == stat.S_IMODE(os.stat(first).st_mode) == 0o700
    assert list(parent.iterdir()) == []


def test_what_nobody_holds_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    (tmp_path / "7-1-left" / "deep").mkdir(parents=True)
    with scratch_folder(tmp_path, "8-1") as mine:
        remove_left_behind(tmp_path)
        assert list(tmp_path.iterdir()) == [mine]
    remove_left_behind(tmp_path / "never-made")
