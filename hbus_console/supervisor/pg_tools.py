"""PostgreSQL's own programs, which know all that a database of theirs holds: ``pg_dump`` and ``pg_restore``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.core.errors import ConfigurationError, Unavailable


def dump(url: str, target: Path) -> None:
    """A picture of one moment of the database at ``url``. Raises ``ConfigurationError`` where the program is not."""
    _run("pg_dump", url, "--format=custom", "--no-owner", f"--file={target}")


def restore(url: str, source: Path) -> None:
    """Fill the empty database at ``url``, all or nothing."""
    _run("pg_restore", url, "--no-owner", "--single-transaction", "--exit-on-error", str(source))


def refuse_filled(url: str) -> None:
    """Raise ``ConfigurationError`` when the database at ``url`` has a table."""
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"
    if _run("psql", url, "--tuples-only", "--no-align", f"--command={tables}").strip() != "0":
        raise ConfigurationError(
            "The database of DATABASE_URL is not empty, and nothing is written over.",
            remedy="Make a new one with createdb, and name it.",
            field="DATABASE_URL",
        )


def _run(program: str, url: str, *arguments: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise ConfigurationError(
            f"The installation's database is PostgreSQL, and there is no {program} on this machine.",
            remedy="Install PostgreSQL's client programs, no older than its server (Debian: apt install "
            "postgresql-client), and try again.",
            field="DATABASE_URL",
        )
    parts = urlsplit(url)
    # Not on the command line, which everybody on this machine can read.
    password = {"PGPASSWORD": unquote(parts.password)} if parts.password else {}
    plain = parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl() if password else url
    done = subprocess.run(
        [path, *arguments, f"--dbname={plain}"],
        env={**os.environ, **password},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(
            f"{program} could not do it: {done.stderr.strip()[:500]}",
            remedy="Nothing was changed; correct that and try again.",
            field="DATABASE_URL",
        )
    return done.stdout
