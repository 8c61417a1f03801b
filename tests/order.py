"""What takes longest begins first: two workers end together only if neither finds the longest test last."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """A group is kept on one worker, and its tests are a half of all."""
    if item.get_closest_marker("xdist_group"):
        return 0
    return 1 if item.get_closest_marker("long") else 2
