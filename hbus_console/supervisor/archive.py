"""One file that holds an installation: its databases, its keys, its anchors, and a manifest that says what they are.

A gzipped tar with ``manifest.json`` first. It holds keys, so it is made for its owner's eyes alone.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import shutil
import tarfile
from pathlib import Path

import msgspec

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.prepared import prepared
from hbus_console.state import ROOT

MANIFEST = "manifest.json"
#: The form that this release writes, and the newest that it reads.
FORMAT = 1
_CHUNK = 1 << 20
_LARGEST_MANIFEST = 4 << 20


class StoredFile(msgspec.Struct, frozen=True):
    """One file of the archive."""

    sha256: str
    size: int


class Manifest(msgspec.Struct):
    """What an archive holds, and of when."""

    format: int
    made_at: str
    #: ``sqlite`` or ``postgresql``, of ``default`` and, where that has one of its own, ``ledger``.
    databases: dict[str, str]
    #: App -> its applied migrations: a release that lacks one of them cannot read the tables.
    migrations: dict[str, list[str]]
    #: Number and hash of the newest audit entry.
    audit_seq: int
    audit_hash: str
    #: Keys that lie in no file here, because the environment gave them.
    keys_elsewhere: list[str]
    files: dict[str, StoredFile] = msgspec.field(default_factory=dict)


def pack(folder: Path, manifest: Manifest, target: Path) -> None:
    """Write everything below ``folder`` into ``target``, mode 0600, in one step: a reader finds it whole or not at all.

    Raises ``BadInput`` when ``target`` is there already, and ``OSError`` when the disk refuses.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    manifest.files = {str(path.relative_to(folder)): _described(path) for path in paths}
    head = folder / MANIFEST
    head.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    draft = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as packed:
                for path in (head, *paths):
                    packed.add(path, arcname=str(path.relative_to(folder)), filter=_plain)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, target)
        except FileExistsError:
            raise _is_there(target) from None
    finally:
        draft.unlink(missing_ok=True)


def refuse_existing(target: Path) -> None:
    """Raise ``BadInput`` when ``target`` is there already: nothing is ever written over."""
    if os.path.lexists(target):
        raise _is_there(target)
    if not target.parent.is_dir():
        raise BadInput(f"There is no folder {target.parent}.", remedy="Make it first.", field="to")


def unpack(source: Path, folder: Path) -> Manifest:
    """Check ``source`` against its manifest and lay its files into ``folder``, which must be empty.

    Raises ``BadInput`` for what is no archive, one of a newer release, and one that is not as it was made.
    """
    try:
        with gzip.open(source) as whole, tarfile.open(fileobj=whole, mode="r:") as packed:
            manifest = _manifest(packed)
            _refuse_newer(manifest)
            _lay_out(packed, manifest, folder)
            # Behind the end of a tar nothing but its padding may come, nor behind the end of the gzip.
            while rest := whole.read(_CHUNK):
                if rest.strip(b"\0"):
                    raise tarfile.ReadError("something was appended to it")
            _refuse_appended(source, whole.tell())
        return manifest
    except FileNotFoundError:
        raise BadInput(f"There is no file {source}.", field="file") from None
    except (tarfile.TarError, EOFError, OSError, msgspec.MsgspecError) as error:
        raise BadInput(
            f"{source} is no whole archive of hbus ({words_of(error)}).",
            remedy="Take another copy of it.",
            field="file",
        ) from error


def _refuse_appended(source: Path, size: int) -> None:
    """Raise ``ReadError`` where more follows than ``size`` bytes were packed into: gzip passes over zeros there."""
    with source.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        # A gzip ends with how much is in it.
        if int.from_bytes(file.read(), "little") != size % 2**32:
            raise tarfile.ReadError("something was appended to it")


def _manifest(packed: tarfile.TarFile) -> Manifest:
    first = packed.next()
    found = packed.extractfile(first) if first is not None and first.name == MANIFEST else None
    if found is None:
        raise tarfile.ReadError("it has no manifest")
    return msgspec.json.decode(found.read(_LARGEST_MANIFEST), type=prepared(Manifest))


def _refuse_newer(manifest: Manifest) -> None:
    newer = f"format {manifest.format}" if manifest.format > FORMAT else _unknown_migration(manifest)
    if newer:
        raise BadInput(
            f"The archive was made by a newer release of hbus: this one does not know {newer}.",
            remedy="Check out that release, or a later one.",
            field="file",
        )


def _unknown_migration(manifest: Manifest) -> str:
    """A migration of ours that this release lacks."""
    for app, names in manifest.migrations.items():
        folder = ROOT / "hbus_console" / app / "migrations"
        if folder.is_dir() and (lacking := set(names) - {path.stem for path in folder.glob("*.py")}):
            return f"{app}.{min(lacking)}"
    return ""


def _lay_out(packed: tarfile.TarFile, manifest: Manifest, folder: Path) -> None:
    waited_for = dict(manifest.files)
    while (member := packed.next()) is not None:
        stored = waited_for.pop(member.name, None)
        path = (folder / member.name).resolve()
        content = packed.extractfile(member) if member.isreg() else None
        if stored is None or content is None or not path.is_relative_to(folder.resolve()):
            raise tarfile.ReadError(f"{member.name[:100]!r} does not belong into it")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            shutil.copyfileobj(content, file, _CHUNK)
            file.flush()
            os.fsync(file.fileno())
        if _described(path) != stored:
            raise tarfile.ReadError(f"{member.name} is not what was packed")
    if waited_for:
        raise tarfile.ReadError(f"{min(waited_for)} is missing")


def _described(path: Path) -> StoredFile:
    with path.open("rb") as file:
        return StoredFile(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the names of this machine."""
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o600, 0, 0, "", ""
    return member


def _is_there(target: Path) -> BadInput:
    return BadInput(f"{target} is there already.", remedy="Name another file: no backup is written over.", field="to")
