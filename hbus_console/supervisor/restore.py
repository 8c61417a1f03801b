"""Makes an installation of an archive: ``manage.py restore FILE``.

It begins without Django, whose settings would make the installation that is not there yet, and its keys.
"""

from __future__ import annotations

import shutil
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from engine.core.env import Env
from engine.core.errors import ConfigurationError, HbusError
from hbus_console.state import named_state
from hbus_console.supervisor import pg_tools
from hbus_console.supervisor.archive import Manifest, unpack

#: The names of the databases in an installation and in an archive.
SQLITE = {"default": "hbus.sqlite3", "ledger": "ledger.sqlite3"}
#: What may lie in the folder beforehand: the programs that hbus builds, and nobody's state.
_BUILT = {"bin"}
_DRAFT = ".restoring"


def add_arguments(parser: ArgumentParser) -> None:
    """The command's words."""
    parser.add_argument("file", type=Path, help="what `manage.py backup` made")


def main(words: list[str], say: Callable[[str], object] = print) -> int:
    """Run the command; returns its exit code: 1 when the restored audit log does not hold."""
    parser = ArgumentParser(
        prog="manage.py restore", description="Make an installation of a backup, in an empty STATE."
    )
    add_arguments(parser)
    return run(parser.parse_args(words).file, say)


def run(source: Path, say: Callable[[str], object]) -> int:
    """Restore ``source`` into ``STATE`` and prove its audit log; returns the exit code.

    Raises :class:`~engine.core.errors.HbusError` before anything is made: for a folder or a database that is not empty,
    an archive that is not whole or of a newer release, and databases of another kind than the environment names.
    """
    state = named_state()
    _refuse_filled(state)
    made = not state.exists()
    draft = state / _DRAFT
    try:
        draft.mkdir(mode=0o700, parents=True)
        state.chmod(0o700)
        say(f"Checking {source} …")
        manifest = unpack(source, draft)
        _fill_databases(manifest, draft, say)
        for path in sorted(draft.iterdir()):
            path.rename(state / path.name)
    except (HbusError, OSError):
        shutil.rmtree(state if made else draft, ignore_errors=True)
        raise
    draft.rmdir()
    say(f"Restored into {state}, as it was at {manifest.made_at}.")
    say(
        "The messages of the store are not in a backup: what was not handled then, or was to come later, is gone "
        "unless your store still has it. What waits in the outbox is published after the start."
    )
    return _prove(manifest, say)


def _refuse_filled(state: Path) -> None:
    if state.exists() and {path.name for path in state.iterdir()} - _BUILT:
        raise ConfigurationError(
            f"{state} is not empty, and nothing is written over.",
            remedy="Name an empty folder: STATE=… manage.py restore FILE.",
            field="STATE",
        )


def _fill_databases(manifest: Manifest, draft: Path, say: Callable[[str], object]) -> None:
    urls = {"default": Env().text("DATABASE_URL"), "ledger": Env().text("LEDGER_DATABASE_URL")}
    for alias, kind in manifest.databases.items():
        named = urls[alias] or urls["default"]
        if (kind == "postgresql") != bool(named):
            raise ConfigurationError(
                f"The archive's database {alias} is of {kind}, and the environment names another kind.",
                remedy="Give DATABASE_URL of an empty one." if kind == "postgresql" else "Take DATABASE_URL away.",
                field="DATABASE_URL",
            )
        if kind == "sqlite":
            (draft / f"{alias}.sqlite3").rename(draft / SQLITE[alias])
        else:
            pg_tools.refuse_filled(named)
    for alias, kind in manifest.databases.items():
        if kind == "postgresql":
            say(f"Filling the database {alias} …")
            pg_tools.restore(urls[alias] or urls["default"], draft / f"{alias}.dump")
            (draft / f"{alias}.dump").unlink()


def _prove(manifest: Manifest, say: Callable[[str], object]) -> int:
    for key in manifest.keys_elsewhere:
        if not Env().text(key):
            say(f"{key} is not in the archive, because the environment gave it: give it here too, then verify.")
            return 1
    # Only now is there an installation for its settings to find.
    import django

    # As above.
    from hbus_console.installed import load_packages

    load_packages()
    django.setup()
    # Models can be imported only now.
    from hbus_console.audit.anchor_file import Anchor
    from hbus_console.audit.state import verify_now
    from hbus_console.audit.witness import in_log

    verdict = verify_now(full=True)
    say(verdict.sentence())
    for finding in verdict.findings:
        say(f"  {finding.kind.value}: {finding.what}")
    there = in_log(Anchor(manifest.audit_seq, manifest.audit_hash, 0))
    if not there:
        say(f"Entry {manifest.audit_seq:,}, the newest of the archive, is not in the log.")
    return 0 if verdict.holds and there else 1
