"""A lake to fill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.pipeline.lake.filling import Filled


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path / "lake")
