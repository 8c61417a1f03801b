"""Where the Delta tables of a lake lie: below ``delta/``, one folder for each kind and topic, with links to its files.

A file of the lake is called there as it is below ``data/``. Only ``%`` becomes ``+``, which :func:`folder_of` leaves in
no name: delta-rs takes addresses and would read ``%2F`` as a slash.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from engine.core.numbers import whole
from engine.pipeline.lake.files import DATA, FILE_SUFFIX, folder_of, write_whole
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Kind

DELTA = "delta"
_LOG = "_delta_log"
_MARK = ".upto"


def table_folder(root: Path, topic: str, kind: Kind) -> Path:
    """That of one table, whether it is there or not."""
    return root / DELTA / kind / folder_of(topic).replace("%", "+")


def name_in_table(path: str) -> str:
    """How the file at ``path`` below the lake's folder is called in its table."""
    return "/".join(PurePosixPath(path).parts[-2:])


def read_mark(root: Path) -> tuple[int, str] | None:
    """As of which commit all tables are, and its digest; ``None``: nobody knows."""
    try:
        version, _, digest = (root / DELTA / _MARK).read_text(encoding="utf-8").partition(" ")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    number = whole(version)
    return None if number is None else (number, digest)


def write_mark(root: Path, version: int, digest: str) -> None:
    """That they are. Raises ``OSError``."""
    (root / DELTA).mkdir(mode=0o700, exist_ok=True)
    write_whole(root / DELTA / _MARK, f"{version} {digest}".encode())


def sweep_tables(lake: Lake) -> int:
    """Remove the links to files that the lake has removed; how many they were.

    So a table has what its older versions named for as long as the lake has it, and what was erased is in neither.
    """
    removed = 0
    for link in sorted((lake.root / DELTA).rglob(f"*{FILE_SUFFIX}")):
        within = link.relative_to(lake.root / DELTA)
        if _LOG not in within.parts and not _file_of(lake.root, within).exists():
            link.unlink(missing_ok=True)
            removed += 1
    return removed


def _file_of(root: Path, link: Path) -> Path:
    kind, topic, *rest = link.parts
    return root.joinpath(DATA, kind, topic.replace("+", "%"), *rest)
