"""What is noted of a fetch is believed while its processes live, and said in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from hbus_console.spark_fetch import progress
from hbus_console.spark_fetch.progress import Living, Phase, Progress

HERE = Living.of(os.getpid())
GONE = msgspec.structs.replace(HERE, created_s=HERE.created_s - 60)


@pytest.mark.parametrize(
    ("phase", "fetch", "beside", "believed"),
    [
        (Phase.DOWNLOADING, HERE, HERE, True),
        (Phase.DOWNLOADING, GONE, HERE, False),
        (Phase.DOWNLOADING, HERE, GONE, False),
        (Phase.READY, GONE, HERE, True),
        (Phase.FAILED, GONE, HERE, True),
        (Phase.FAILED, GONE, GONE, False),
    ],
)
def test_only_its_last_word_outlives_the_fetch_and_nothing_its_console(
    tmp_path: Path, phase: Phase, fetch: Living, beside: Living, believed: bool
) -> None:
    noted = Progress(phase, fetch, beside)
    progress.write(tmp_path, noted)
    assert progress.read(tmp_path) == (noted if believed else None)


def test_no_file_and_a_damaged_one_tell_nothing(tmp_path: Path) -> None:
    assert progress.read(tmp_path) is None
    progress.write(tmp_path, Progress(Phase.DOWNLOADING, HERE, HERE))
    (path,) = (tmp_path / "run").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    path.write_text('{"phase": "read')
    assert progress.read(tmp_path) is None
    progress.forget(tmp_path)
    progress.forget(tmp_path)
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"phase": Phase.DOWNLOADING}, "Spark is being fetched: its packages are looked for."),
        (
            {"phase": Phase.DOWNLOADING, "package": "pyspark", "done": 214_900_000, "total": 455_900_000},
            "Spark is being fetched: 214 of 456 MB of pyspark.",
        ),
        ({"phase": Phase.DOWNLOADING, "package": "six", "total": 900}, "Spark is being fetched: downloading six."),
        ({"phase": Phase.BUILDING, "package": "pyspark"}, "Spark is being fetched: building pyspark."),
        ({"phase": Phase.INSTALLING}, "Spark is being fetched: installing its packages."),
        ({"phase": Phase.FAILED, "said": "no room"}, "Spark could not be fetched."),
    ],
)
def test_everybody_is_told_how_far_it_is_and_nobody_by_this_what_pip_said(said: dict[str, object], words: str) -> None:
    assert Progress(fetch=HERE, beside=HERE, **said).words == words  # type: ignore[arg-type]
