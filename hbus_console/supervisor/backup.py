"""Takes an installation away in one file while everything runs: nobody is held up, and nothing is torn."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import connections, transaction
from django.db.migrations.recorder import MigrationRecorder

from engine.core.clock import Clock, SystemClock, to_rfc3339
from engine.core.env import Env
from hbus_console import checks
from hbus_console.access.permissions import Actor
from hbus_console.audit.models import newest
from hbus_console.audit.services import record
from hbus_console.audit.subjects import INSTALLATION
from hbus_console.supervisor import pg_tools
from hbus_console.supervisor.archive import FORMAT, Manifest, pack, refuse_existing

#: The names of the databases' files in the archive, by alias and kind.
FILES = {"sqlite": "{alias}.sqlite3", "postgresql": "{alias}.dump"}
#: Keys that the environment may give instead of a file.
_KEYS = ("HBUS_SECRET_KEY", "HBUS_AUDIT_KEY")
#: Kept beside the anchors; copied before them, for they go at least as far as it knows.
_VERIFIED = "verified.json"


class Packed(NamedTuple):
    """What a backup holds."""

    size: int
    audit_seq: int
    keys_elsewhere: tuple[str, ...]


def back_up(
    actor: Actor, target: Path, *, reason: str = "", say: Callable[[str], object] = print, clock: Clock | None = None
) -> Packed:
    """Write the installation into ``target``, which only its owner can read; becomes an audit entry, which is in it.

    Each database is a picture of one moment, and has every act that was committed before this was called. The store's
    messages are not in it. Raises ``BadInput`` when ``target`` is there, ``ConfigurationError`` where PostgreSQL's
    programs are not, and ``OSError`` when the disk refuses.
    """
    reason = checks.reason(reason, required=False)
    refuse_existing(target)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
        folder = Path(name)
        with transaction.atomic():
            record(actor, "installation.backup", INSTALLATION, reason=reason, after={"file": target.name})
        # Anchors first: the log that is copied after them has all that they anchor.
        _copy_anchors(Path(settings.STATE) / "audit", folder / "audit")
        head = newest().values_list("seq", "hash")[0]
        databases = _copy_databases(folder, say)
        _copy_folder(Path(settings.STATE) / "secrets", folder / "secrets")
        manifest = Manifest(
            format=FORMAT,
            made_at=to_rfc3339((clock or SystemClock()).now_ms()),
            databases=databases,
            migrations=_migrations(),
            audit_seq=head[0],
            audit_hash=head[1],
            keys_elsewhere=[key for key in _KEYS if Env().text(key)],
        )
        pack(folder, manifest, target)
    return Packed(target.stat().st_size, head[0], tuple(manifest.keys_elsewhere))


def _copy_databases(folder: Path, say: Callable[[str], object]) -> dict[str, str]:
    kinds = {}
    for alias in ("default",) if settings.ONE_DATABASE else ("default", "ledger"):
        vendor = connections[alias].vendor
        kinds[alias] = vendor
        target = folder / FILES[vendor].format(alias=alias)
        say(f"Copying the database {alias} …")
        if vendor == "postgresql":
            pg_tools.dump(database_url(alias), target)
        else:
            _copy_sqlite(Path(settings.DATABASES[alias]["NAME"]), target)
    return kinds


def database_url(alias: str) -> str:
    """What the environment says of the database ``alias``."""
    own = Env().text("LEDGER_DATABASE_URL") if alias == "ledger" else ""
    return own or Env().text("DATABASE_URL")


def _copy_sqlite(source: Path, target: Path) -> None:
    """By SQLite's online backup, in one step: with what lies in the write-ahead log, and under no writer's feet."""
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=20)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)


def _copy_anchors(source: Path, target: Path) -> None:
    """The last verification, then the anchors, until none was written for the first time in between."""
    while True:
        shutil.rmtree(target, ignore_errors=True)
        _copy_folder(source, target, only=_VERIFIED)
        _copy_folder(source, target, without=_VERIFIED)
        if (target / _VERIFIED).exists() or not (source / _VERIFIED).exists():
            return


def _copy_folder(source: Path, target: Path, *, only: str = "", without: str = "") -> None:
    """Its plain files, but for drafts that somebody is writing; a line that is just being appended is left out."""
    target.mkdir(mode=0o700, exist_ok=True)
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if path.name.startswith(".") or not path.is_file() or path.name == without or only not in ("", path.name):
            continue
        content = path.read_bytes()
        if path.suffix == ".jsonl":
            content = content[: content.rfind(b"\n") + 1]
        descriptor = os.open(target / path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def _migrations() -> dict[str, list[str]]:
    applied: dict[str, list[str]] = {}
    for alias in settings.DATABASES:
        for app, name in sorted(MigrationRecorder(connections[alias]).applied_migrations()):
            if name not in applied.setdefault(app, []):
                applied[app].append(name)
    return applied
