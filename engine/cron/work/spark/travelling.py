"""hbus as it travels to executors: a zip of ``engine``, its scripts for the store included."""

from __future__ import annotations

import os
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

#: Where hbus lies.
ROOT = Path(__file__).parents[4]
_PACKAGE = "engine"
#: The same for every file, so that what is the same is the same zip.
_TIME = (1980, 1, 1, 0, 0, 0)


def travelling_package(parent: Path, folder: Path) -> Path:
    """The zip, as a file of ``folder``: a link to the one in ``parent``, which is made once of each version.

    Python imports from it, and :func:`~engine.core.scripts.load_scripts` reads from it. It holds no compiled code, for
    the other machine's Python may be another. Thread-safe, and between processes.
    """
    files = _files()
    kept = parent / f"{_PACKAGE}-{_digest(files)}.zip"
    mine = folder / f"{_PACKAGE}.zip"
    while True:
        if not kept.exists():
            _pack(files, kept, folder)
        try:
            os.link(kept, mine)
        except FileNotFoundError:
            # Of another version somebody has made one meanwhile.
            continue
        except OSError:
            # A file system that knows no links.
            shutil.copyfile(kept, mine)
        return mine


def _files() -> dict[str, bytes]:
    """By their names in the zip, in the order of these."""
    found = {}
    for path in sorted((ROOT / _PACKAGE).rglob("*")):
        if path.is_file() and path.parent.name != "__pycache__":
            found[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    return found


def _digest(files: dict[str, bytes]) -> str:
    digest = sha256()
    for name, content in files.items():
        digest.update(f"{len(name)} {len(content)} {name}".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _pack(files: dict[str, bytes], kept: Path, folder: Path) -> None:
    """In one step, and in the place of those of other versions: who still needs one of these has a link."""
    draft = folder / kept.name
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    draft.replace(kept)
    for former in kept.parent.glob(f"{_PACKAGE}-*.zip"):
        if former != kept:
            former.unlink(missing_ok=True)
