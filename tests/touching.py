"""``--touching database|store``: runs only the tests that reach one, for a run on another server of that kind.

What asks no server cannot differ there; it has run in the ordinary run, and so has what is marked ``above_database``.
Who reaches one is read off the fixtures at collection, so that no list can be forgotten. pytest-django refuses the
database to whoever did not ask for it. What is marked ``sqlite`` can happen there alone, and is no part of a run on
PostgreSQL.

``--first-cases``: of a test that is given many cases, the first alone; what the others differ in was judged in the
ordinary run. It is the short form of such a run, beside all others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: What gives a test Django's databases; most ask by the mark ``django_db``.
DATABASE = {"db", "transactional_db", "django_db_reset_sequences", "django_db_serialized_rollback", "live_server"}
#: What gives a test a store.
STORE = {"redis_url", "own_store", "own_cluster", "store_cluster", "own_trio"}
#: Where servers come from that a test file may start by itself.
SERVERS = {"hbus_console.supervisor.standalone", "tests.store_servers"}

_LEFT_OUT = pytest.StashKey[dict[str, int]]()


def reaches_database(item: pytest.Item) -> bool:
    """Those marked ``above_database`` do, and judge what is decided above it: for them one kind is enough."""
    if item.get_closest_marker("above_database"):
        return False
    return item.get_closest_marker("django_db") is not None or bool(DATABASE & _fixtures(item))


def reaches_store(item: pytest.Item) -> bool:
    module = item.getparent(pytest.Module)
    names = vars(module.obj).values() if module else ()
    return bool(STORE & _fixtures(item)) or any(getattr(value, "__module__", "") in SERVERS for value in names)


def choose(items: Iterable[pytest.Item], touching: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Who stays and who is left out. By a store whole files are chosen: what surrounds a test may well stand on it."""
    items = list(items)
    if touching == "database":
        stays: Callable[[pytest.Item], bool] = reaches_database
    else:
        files = {item.path for item in items if reaches_store(item)}
        stays = lambda item: item.path in files  # noqa: E731
    return [item for item in items if stays(item)], [item for item in items if not stays(item)]


def first_cases(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The first case of each test, and the others."""
    seen: set[str] = set()
    first, others = [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        (others if test in seen else first).append(item)
        seen.add(test)
    return first, others


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--touching", choices=["database", "store"], help="run only the tests that reach a database, or a store"
    )
    parser.addoption("--first-cases", action="store_true", help="run of each test that has many cases the first alone")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("HBUS_TEST_DATABASE") == "postgresql":
        elsewhere = [item for item in items if item.get_closest_marker("sqlite")]
        items[:] = [item for item in items if not item.get_closest_marker("sqlite")]
        config.hook.pytest_deselected(items=elsewhere)
    left = {}
    if touching := config.getoption("--touching"):
        items[:], untouched = choose(items, touching)
        config.hook.pytest_deselected(items=untouched)
        left[f"reach no {touching} and were left out: what they show differs on none"] = len(untouched)
    if config.getoption("--first-cases"):
        items[:], others = first_cases(items)
        config.hook.pytest_deselected(items=others)
        left["are further cases of tests whose first was run, and were left out"] = len(others)
    config.stash[_LEFT_OUT] = left


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # Workers of pytest-xdist collect; the controller tells.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(_LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for why, number in config.stash.get(_LEFT_OUT, {}).items():
        terminalreporter.line(f"{number} tests {why}.")
