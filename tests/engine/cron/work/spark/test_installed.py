"""Spark is found, or it is said how it is installed."""

from __future__ import annotations

import pytest

from engine.core.errors import ConfigurationError
from engine.cron.work.spark import installed
from engine.cron.work.spark.installed import InstalledSpark, find_spark


def test_it_is_found_beside_this_python(spark: InstalledSpark) -> None:
    assert spark.submit.is_file()


def test_where_it_is_not_installed_it_is_said_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError) as refused:
        find_spark()
    assert "pyspark" in refused.value.what
    assert "make spark" in refused.value.remedy
