from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.rig import Rig


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with migrated databases, to be copied."""
    made = Rig(tmp_path_factory.mktemp("template"))
    made.end()
    return made.state


@pytest.fixture
def rig(tmp_path: Path, migrated: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, template=migrated)
    yield made
    made.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            # Each starts a handful of processes with leases and deadlines: two such tests at once starve each other.
            item.add_marker(pytest.mark.xdist_group("installation"))
