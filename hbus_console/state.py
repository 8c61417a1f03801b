"""Where one installation keeps its state: everything below ``STATE`` (default ``var/``), nothing elsewhere."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from engine.core.env import Env
from engine.core.errors import ConfigurationError

ROOT = Path(__file__).resolve().parent.parent


def state_dir() -> Path:
    """The installation's folder, made private on first use."""
    path = named_state()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def refuse_nowhere() -> None:
    """Raise ``ConfigurationError`` when no installation was ever made in ``STATE``; makes nothing.

    One whose database is elsewhere need not have left anything here.
    """
    path = named_state()
    if not Env().text("DATABASE_URL") and not (path / "hbus.sqlite3").exists():
        raise ConfigurationError(
            f"There is no installation in {path}.",
            remedy="Name its folder, STATE=…, or make one with `make run`.",
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
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    if not path.exists():
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
