"""Where one installation keeps its state: everything below ``STATE`` (default ``var/``), nothing elsewhere."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def state_dir() -> Path:
    """The installation's folder, made private on first use."""
    path = Path(os.environ.get("STATE") or ROOT / "var").expanduser().resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


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
