"""Where one installation keeps its state: everything below ``STATE`` (default ``var/``), nothing elsewhere."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

from engine.core.env import Env
from engine.core.errors import ConfigurationError

ROOT = Path(__file__).resolve().parent.parent
#: Set by :func:`make_nothing`.
_making_nothing = threading.Event()


def state_dir() -> Path:
    """The installation's folder, made private on first use unless nothing shall be made."""
    path = named_state()
    if not _making_nothing.is_set():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def is_nowhere() -> bool:
    """Whether no installation was ever made in ``STATE``. One whose database is elsewhere need not have left anything
    there."""
    return not Env().text("DATABASE_URL") and not (named_state() / "hbus.sqlite3").exists()


def make_nothing() -> None:
    """For this process from now on: a folder that is not there is not made, and a secret that is not there is one of
    this process alone."""
    _making_nothing.set()


def refuse_nowhere() -> None:
    """Raise ``ConfigurationError`` where :func:`is_nowhere`; makes nothing."""
    if is_nowhere():
        raise ConfigurationError(
            f"There is no installation in {named_state()}.",
            remedy="Name its folder, STATE=…, or make one: `make run`, or `manage.py prepare` without starting it.",
            field="STATE",
        )


def named_state() -> Path:
    """Where ``STATE`` leads, whether or not anything is there."""
    return Path(os.environ.get("STATE") or ROOT / "var").expanduser().resolve()


def secret(name: str) -> str:
    """A secret of this installation, generated once into ``STATE/secrets/NAME`` with mode 0600.

    Safe against two processes starting at once: the first to create the file wins and both read it.
    """
    folder = state_dir() / "secrets"
    path = folder / name
    if not path.exists():
        if _making_nothing.is_set():
            return secrets.token_urlsafe(48)
        folder.mkdir(mode=0o700, exist_ok=True)
        draft = folder / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(48), encoding="utf-8")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text(encoding="utf-8")
