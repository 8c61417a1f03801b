"""Fixtures every test may use; the real store is started by ``tests.settings``."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from hbus_console.supervisor.standalone import StandaloneStore
from tests import schema
from tests.installation import RunningInstallation
from tests.store_servers import SentinelTrio, StoreCluster

# How fast this machine is just now is no property of the code.
settings.register_profile("hbus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hbus")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", metavar="DIR", default="", help="keep the photographs of the browser tests in DIR")


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    """A server of the test run's own goes with its databases: nothing need be dropped, nor waited for."""
    return os.environ.get("HBUS_TEST_DATABASE") == "postgresql" or bool(request.config.getvalue("reuse_db"))


@pytest.fixture(scope="session", autouse=True)
def _flush_empties_the_audit_log() -> None:
    from tests.guards import let_flush_empty_the_audit_log

    let_flush_empty_the_audit_log()


@pytest.fixture(scope="session")
def _guarding(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> dict[str, str]:
    """The constraints of the database that all tests of this process share, as the migrations made them."""
    with django_db_blocker.unblock():
        return schema.guarding()


@pytest.fixture(scope="module", autouse=True)
def _no_constraint_is_lost(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that takes a constraint away and does not put it back would break others, far from it."""
    if not any(item.get_closest_marker("django_db") for item in request.session.items if item.path == request.path):
        yield
        return
    before: dict[str, str] = request.getfixturevalue("_guarding")
    blocker: DjangoDbBlocker = request.getfixturevalue("django_db_blocker")
    yield
    with blocker.unblock():
        assert schema.guarding() == before


@pytest.fixture(autouse=True)
def _forget_the_audit_log_of_the_last_test() -> None:
    """What was verified and anchored belongs to a database; each test begins with an empty one."""
    from tests.settings import STATE_DIR

    shutil.rmtree(STATE_DIR / "audit", ignore_errors=True)


@pytest.fixture(scope="session")
def redis_url() -> str:
    """Address of this process's own Valkey. Do not flush it: other tests share it; use ``prefix``."""
    from tests.settings import STORE

    return STORE.url


@pytest.fixture
def prefix() -> str:
    """A key prefix nobody else uses."""
    return f"t{secrets.token_hex(6)}"


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[StandaloneStore]:
    """A Valkey of the test's own, to be killed, flushed or filled at will."""
    store = StandaloneStore(tmp_path / "own-store").start()
    yield store
    store.kill()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder as ``manage.py prepare`` leaves it, to be copied: a first start takes 9 s of the processor."""
    installation = RunningInstallation(tmp_path_factory.mktemp("prepared") / "state")
    made = installation.manage("prepare")
    assert made.returncode == 0, made.stderr
    return installation.state


@pytest.fixture(scope="session")
def store_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreCluster]:
    """A cluster of three primaries with replicas. Kill none of it: other tests share it; use ``prefix``."""
    cluster = StoreCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[StoreCluster]:
    """A cluster of the test's own, to be killed at will."""
    cluster = StoreCluster(tmp_path / "own-cluster")
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
def own_trio(tmp_path: Path) -> Iterator[SentinelTrio]:
    """A primary with two replicas and three Sentinels of the test's own, to be killed at will."""
    trio = SentinelTrio(tmp_path / "own-trio")
    try:
        yield trio.start()
    finally:
        trio.stop()
