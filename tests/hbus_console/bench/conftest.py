"""What the bench's processes find around them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_in_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the tests would have every measured process start a store that nobody uses."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
    monkeypatch.setenv("HBUS_APPS", "")
