"""A lake of one topic to audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.pipeline.audit.telling import Hotel, Told, season


@pytest.fixture
def hotel(tmp_path: Path) -> Hotel:
    return Hotel(tmp_path / "lake")


@pytest.fixture
def told(hotel: Hotel) -> Told:
    """Some days of bookings, all as it should be."""
    return season(6_000, hotel.start_ms)
