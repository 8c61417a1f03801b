"""A package that pip has not finished is none."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from engine.core.errors import ConfigurationError
from engine.cron.work.spark import installed, java
from engine.cron.work.spark.installed import InstalledSpark, find_spark
from engine.cron.work.spark.java import find_java
from engine.cron.work.spark.whole import is_whole


def test_in_this_python_s_own_folder_it_is_whole_once_pip_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy").mkdir()
    assert is_whole(tmp_path / "toy")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert not is_whole(tmp_path / "toy")
    record = tmp_path / "toy-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").touch()
    assert not is_whole(tmp_path / "toy")
    (record / "INSTALLER").touch()
    assert is_whole(tmp_path / "toy")


def test_neither_half_a_spark_nor_half_a_java_is_taken(spark: InstalledSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_java({"PATH": ""})
    monkeypatch.setattr(java, "is_whole", lambda _: False)
    with pytest.raises(ConfigurationError, match="There is no Java"):
        find_java({"PATH": ""})
    monkeypatch.setattr(installed, "is_whole", lambda _: False)
    with pytest.raises(ConfigurationError, match="not installed"):
        find_spark()
