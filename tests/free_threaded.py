"""Plugin of ``make test-free-threaded``: the engine's quotas on an interpreter without a GIL, and a store for them.

It stands in for ``tests/conftest.py``, which brings Django and what else has no part in this. A test that ran while the
GIL was on would pass and say nothing, so each fails then: the interpreter may have one, or an extension that somebody
imported may have switched it on.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator

import pytest

from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture(autouse=True)
def _without_gil() -> Iterator[None]:
    _look()
    yield
    _look()


def _look() -> None:
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.fail("The GIL is on: this says nothing of free-threaded builds.", pytrace=False)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of this run's own Valkey. Tests share it; use ``prefix``."""
    store = StandaloneStore(tmp_path_factory.mktemp("store")).start()
    yield store.url
    store.kill()


@pytest.fixture
def prefix() -> str:
    """A key prefix nobody else uses."""
    return f"t{secrets.token_hex(6)}"
