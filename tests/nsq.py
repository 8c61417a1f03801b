"""Real nsqds for tests; where none can be built, what needs one is skipped with the reason (with CI=true: failed)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.errors import ConfigurationError
from hbus_console.supervisor import nsqd
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd


def needs_nsqd() -> None:
    """Skip the test where there is no nsqd."""
    try:
        nsqd.build()
    except ConfigurationError as error:
        pytest.skip(f"no nsqd: {error}")


@pytest.fixture(scope="session")
def nsqd_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HTTP address of this process's own nsqd. Other tests share it; use ``prefix``."""
    needs_nsqd()
    server = StandaloneNsqd(tmp_path_factory.mktemp("nsqd")).start()
    yield server.url
    server.kill()


@pytest.fixture
def own_nsqd(tmp_path: Path) -> Iterator[StandaloneNsqd]:
    """An nsqd of the test's own, to be killed and restarted at will."""
    needs_nsqd()
    server = StandaloneNsqd(tmp_path / "own-nsqd").start()
    yield server
    server.kill()
