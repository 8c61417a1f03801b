"""Files that are there whole or not at all, and stay over a power cut."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

#: Where files of messages lie, below the lake's folder.
DATA = "data"
FILE_SUFFIX = ".parquet"
#: How long a folder's name may be before its end becomes a hash.
_LONGEST = 120


def write_whole(path: Path, content: bytes) -> None:
    """At ``path``, in place of what may be there."""
    make_whole(path, lambda draft: draft.write_bytes(content))


def make_whole(path: Path, write: Callable[[Path], object], *, stays: bool = True) -> None:
    """What ``write`` makes under another name is at ``path`` once it is whole and on disk; its folder is there.

    Without ``stays`` a power cut may take it, or leave another content in its place: for what tells whether it is as it
    was made, and can be made again.
    """
    with _draft_of(path, write, stays=stays) as draft:
        draft.rename(path)
    if stays:
        sync_folder(path.parent)


def write_first(path: Path, content: bytes) -> bool:
    """At ``path``, whole and on disk, unless something is there already: then nothing is done, and it is ``False``."""
    with _draft_of(path, lambda draft: draft.write_bytes(content)) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True


@contextmanager
def _draft_of(path: Path, write: Callable[[Path], object], *, stays: bool = True) -> Iterator[Path]:
    """Closed to others and, if it ``stays``, on disk; gone at the end unless it has another name then."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        write(draft)
        if stays:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        draft.chmod(0o600)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Its names are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_of(topic: str) -> str:
    """A folder's name for a topic of any name: what could mean something to a file system, or to a glob, is quoted."""
    name = quote(topic, safe="-_.")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
