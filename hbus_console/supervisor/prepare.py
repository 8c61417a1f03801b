"""What one installation needs once: tables, rules, assets, a first administrator. Quick and harmless to repeat."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from engine.core.errors import ConfigurationError
from hbus_console.accounts.services import ensure_first_admin
from hbus_console.registry.declared import check_declared
from hbus_console.registry.loading import features, resolve
from hbus_console.supervisor.closing import close

#: Serialises preparations on PostgreSQL when several hosts start at once.
_ADVISORY_LOCK = 0x6862_7573_0001

Say = Callable[[str], None]


def prepare(say: Say) -> None:
    """Close the state folder to others, migrate, set up what features begin with, and collect, where needed.

    ``say`` hears one line for each thing that had to be done. Raises ``ConfigurationError`` when the assets that npm
    brings are not there, or an app of ``HBUS_APPS`` declares what is not.
    """
    check_declared()
    close(settings.STATE, say)
    with _alone():
        for alias in aliases_to_migrate():
            say(f"Preparing the database {alias} …")
            call_command("migrate", database=alias, verbosity=0, interactive=False)
        for feature in features():
            for hook in feature.prepare:
                resolve(hook)(say)
        collect_assets(say)


def first_admin() -> str | None:
    """Make the first administrator where there is none; returns the password if it made one.

    Nobody is told it twice, so whatever may refuse to start comes before.
    """
    with _alone():
        return ensure_first_admin()


def aliases_to_migrate() -> list[str]:
    """The databases that lack a migration of this version."""
    behind = []
    for alias in settings.DATABASES:
        executor = MigrationExecutor(connections[alias])
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            behind.append(alias)
    return behind


def collect_assets(say: Say) -> None:
    """Collect the static files again if any of them changed since the last time."""
    inputs = _fingerprint()
    stamp = Path(settings.STATIC_ROOT).with_suffix(".stamp")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == inputs:
        return
    sources: list[Any] = settings.STATICFILES_DIRS
    for source in sources:
        folder = Path(source[1] if isinstance(source, tuple) else source)
        if not folder.is_dir():
            raise ConfigurationError(
                f"The assets in {folder} are missing.", remedy="Run `make assets`.", field="STATICFILES_DIRS"
            )
    say("Collecting the pages' assets …")
    with warnings.catch_warnings():
        call_command("collectstatic", verbosity=0, interactive=False, clear=True)
    stamp.write_text(inputs, encoding="utf-8")


def _fingerprint() -> str:
    """Changes whenever a static file is added, removed or edited."""
    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for path, storage in finder.list([]):
            found = Path(storage.path(path)).stat()
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@contextmanager
def _alone() -> Iterator[None]:
    connection = connections["default"]
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_ADVISORY_LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_ADVISORY_LOCK])
