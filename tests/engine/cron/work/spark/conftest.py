"""The real Spark, where `make spark` has installed it."""

from __future__ import annotations

import pytest

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.installed import InstalledSpark, find_spark


@pytest.fixture(scope="session")
def spark() -> InstalledSpark:
    """What this Python and this machine have."""
    try:
        return find_spark()
    except ConfigurationError as error:
        pytest.skip(f"{error.what} {error.remedy}")
