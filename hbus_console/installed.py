"""The apps of this installation, known without Django: what it takes to collect their features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from traceback import extract_tb

from engine.core.env import Env
from engine.core.error_text import text_of
from engine.core.errors import ConfigurationError

#: The ground first, then the features, then the front.
OURS = (
    "hbus_console.accounts",
    "hbus_console.audit",
    "hbus_console.teams",
    "hbus_console.evidence",
    "hbus_console.outbox",
    "hbus_console.operations",
    "hbus_console.alerts",
    "hbus_console.cluster",
    "hbus_console.keeper",
    "hbus_console.supervisor",
    "hbus_console.api",
    "hbus_console.ui",
    "hbus_console.topics",
    "hbus_console.schemas",
    "hbus_console.subscriptions",
    "hbus_console.consumers",
    "hbus_console.publishing",
    "hbus_console.messages",
    "hbus_console.traffic",
    "hbus_console.deadletters",
    "hbus_console.replays",
    "hbus_console.imports",
    "hbus_console.jobs",
    "hbus_console.quotas",
    "hbus_console.pipelines",
    "hbus_console.overview",
)


def apps() -> tuple[str, ...]:
    """Ours, and those that HBUS_APPS names. Raises ``ConfigurationError`` for one that is not there."""
    named = Env().words("HBUS_APPS", "examples.hotel")
    for app in named:
        if not _is_there(app):
            raise ConfigurationError(
                f"HBUS_APPS names {app!r}, and there is no such package.",
                remedy="Install it where this Python finds it, or correct the name.",
                field="HBUS_APPS",
            )
    return (*OURS, *named)


def load_packages() -> None:
    """Import the packages of the installed apps, which Django would do next.

    Raises ``ConfigurationError`` for one of ``HBUS_APPS`` that cannot be loaded.
    """
    for app in apps():
        _load(app, app)


@contextmanager
def loading(app: str, what: str, file: str) -> Iterator[None]:
    """Whatever is raised meanwhile becomes a ``ConfigurationError``: ``what`` cannot be loaded, by ``file``.

    Whoever wrote an app of ``HBUS_APPS`` is not who starts hbus: a traceback through the loader tells them nothing, and
    the end of the process by a ``SystemExit`` even less. What our own apps raise passes.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if app in OURS:
            raise
        raise ConfigurationError(
            f"{what} cannot be loaded: {text_of(error)} ({file}{_line(error, file)}).",
            remedy=f"Correct that file, or take {app} out of HBUS_APPS.",
            field="HBUS_APPS",
        ) from error


def _is_there(app: str) -> bool:
    parent = app.rpartition(".")[0]
    if parent:
        if not _is_there(parent):
            return False
        # Looking for what is in a package imports it.
        _load(app, parent)
    try:
        return find_spec(app) is not None
    except (ImportError, ValueError):
        return False


def _load(app: str, package: str) -> None:
    spec = find_spec(package)
    with loading(app, f"The app {app!r}", (spec and spec.origin) or package):
        import_module(package)


def _line(error: BaseException, file: str) -> str:
    """Where in ``file`` it was raised, or what was called from it."""
    numbers = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    number = numbers[-1] if numbers else getattr(error, "lineno", None)
    return f", line {number}" if number else ""
