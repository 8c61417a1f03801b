"""Brings the Delta tables of a lake up to date: its commits become commits of theirs, over links to the same files.

The table's own log says up to which commit of which lake it is (``txn``), in the same commit as the files. So whoever
is killed, or exports at the same time, leaves a table that is whole, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError
from engine.pipeline.delta.changes import changes
from engine.pipeline.delta.places import read_mark, table_folder, write_mark
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Commit, Kind, LakeState

#: How often a table is looked at again where another exporter came first.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Exported:
    """One table that is not as it was."""

    topic: str
    kind: Kind
    folder: Path
    #: Of the table now.
    version: int
    #: All that it has.
    files: int
    rows: int


def insist_on_delta() -> None:
    """Raises ``ConfigurationError`` where nothing is installed that writes Delta tables."""
    if find_spec("deltalake") is None:
        raise ConfigurationError(
            "Delta tables cannot be written here: this Python has no deltalake.",
            remedy="Whoever runs this installation installs it by `make spark`.",
            field="deltalake",
        )


def export_tables(lake: Lake, topics: Iterable[str] = (), go_on: Callable[[], None] = lambda: None) -> list[Exported]:
    """Of these topics, or of all that the lake has; those that changed. ``go_on`` may raise to end it between two.

    Of all, only what the lake has changed since all were exported last is looked at. Raises ``ConfigurationError``
    without deltalake, ``OSError``, and :class:`~engine.pipeline.lake.errors.LakeDamaged`. What was done until then
    stays. Any number may export at once.
    """
    insist_on_delta()
    wanted = frozenset(topics)
    lake_id, state = f"hbus {next(lake.commits()).at_ms}", lake.state()
    changed: list[Exported] = []
    for topic, kind in sorted(_pairs(lake, state, wanted) if wanted else _due(lake, state)):
        go_on()
        if (made := _export(lake, state, topic, kind, lake_id)) is not None:
            changed.append(made)
    if not wanted:
        write_mark(lake.root, state.version, state.digest)
    return changed


def _pairs(lake: Lake, state: LakeState, topics: Collection[str]) -> set[tuple[str, Kind]]:
    """What may have a table: what has files, and what had."""
    found = {(file.topic, file.kind) for file in state.files.values() if file.topic in topics}
    return found | {(topic, kind) for topic in topics for kind in Kind if table_folder(lake.root, topic, kind).exists()}


def _due(lake: Lake, state: LakeState) -> set[tuple[str, Kind]]:
    """What may have another table than before."""
    mark = read_mark(lake.root)
    later = lake.commits_after(mark[0]) if mark is not None else []
    if mark is None or (later[0].before if later else state.digest) != mark[1]:
        # Nobody knows, another lake is in the folder, or a copy of this one that went another way since.
        return _pairs(lake, state, state.topics)
    touched = {topic for commit in later for topic in _topics_of(commit)}
    there = {(file.topic, file.kind) for file in state.files.values()}
    missing = {pair for pair in there if not table_folder(lake.root, *pair).exists()}
    return _pairs(lake, state, touched & state.topics.keys()) | missing


def _topics_of(commit: Commit) -> set[str]:
    """Those whose files it changes: a merge names them by the files that it adds, retention by what it says of them."""
    return {file.topic for file in commit.added} | set(commit.topics)


def _export(lake: Lake, state: LakeState, topic: str, kind: Kind, lake_id: str) -> Exported | None:
    # It brings a library of a hundred megabytes, which whoever exports nothing does without.
    from deltalake.exceptions import DeltaError

    for _ in range(_TRIES - 1):
        # Somebody else may export meanwhile, or make the table: what there is to do is looked for anew.
        with suppress(DeltaError):
            return _export_once(lake, state, topic, kind, lake_id)
    try:
        return _export_once(lake, state, topic, kind, lake_id)
    except DeltaError as error:
        raise LakeDamaged(
            f"The Delta table of {topic} cannot be written: {words_of(error)}",
            remedy="Nothing is in it alone: remove its folder below delta/ in the lake, and it is made anew.",
        ) from error


def _export_once(lake: Lake, state: LakeState, topic: str, kind: Kind, lake_id: str) -> Exported | None:
    # Likewise.
    from engine.pipeline.delta.tables import Table

    table = Table(lake.root, topic, kind, lake_id=lake_id)
    exported = table.exported()
    if exported is not None and exported > state.version:
        # Another one came first, of a later state; or the lake is an older copy of itself.
        state = lake.state()
    due = changes(lake, state, table.holds(), since=exported)
    for change in due:
        table.commit(change)
    if not due:
        return None
    files = state.files_of(topic, kind=kind)
    return Exported(topic, kind, table.folder, table.version(), len(files), sum(file.rows for file in files))
