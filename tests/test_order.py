"""The order of a run."""

from __future__ import annotations

import pytest

from tests.order import pytest_collection_modifyitems


class Item:
    def __init__(self, name: str, *markers: str) -> None:
        self.name, self._markers = name, markers

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._markers else None


def test_what_takes_longest_begins_first_and_all_else_keeps_its_order() -> None:
    items = [
        Item("b"),
        Item("a"),
        Item("mutants", "long"),
        Item("house 2", "xdist_group"),
        Item("house 1", "xdist_group"),
    ]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert [item.name for item in items] == ["house 2", "house 1", "mutants", "b", "a"]


def test_long_is_a_marker_that_is_known(pytestconfig: pytest.Config) -> None:
    assert any(line.startswith("long:") for line in pytestconfig.getini("markers"))
