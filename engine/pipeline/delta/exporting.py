"""Brings the Delta tables of a lake up to date: its commits become commits of theirs, over links to the same files.

The table's own log says up to which commit of which lake it is (``txn``), in the same commit as the files. So whoever
is killed, or exports at the same time, leaves a table that is whole, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError
from engine.pipeline.delta.changes import changes
from engine.pipeline.delta.places import table_folder
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Kind

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

    Raises ``ConfigurationError`` without deltalake, ``OSError``, and
    :class:`~engine.pipeline.lake.errors.LakeDamaged`. What was done until then stays. Any number may export at once.
    """
    insist_on_delta()
    wanted, state = frozenset(topics), lake.state()
    pairs = {(file.topic, file.kind) for file in state.files.values() if not wanted or file.topic in wanted}
    # Of what has no file any more there may be a table that has.
    pairs |= {
        (topic, kind)
        for topic in wanted or state.topics
        for kind in Kind
        if table_folder(lake.root, topic, kind).exists()
    }
    changed: list[Exported] = []
    for topic, kind in sorted(pairs):
        go_on()
        if (made := _export(lake, topic, kind)) is not None:
            changed.append(made)
    return changed


def _export(lake: Lake, topic: str, kind: Kind) -> Exported | None:
    # It brings a library of a hundred megabytes, which whoever exports nothing does without.
    from deltalake.exceptions import DeltaError

    for _ in range(_TRIES - 1):
        # Somebody else may export meanwhile, or make the table: what there is to do is looked for anew.
        with suppress(DeltaError):
            return _export_once(lake, topic, kind)
    try:
        return _export_once(lake, topic, kind)
    except DeltaError as error:
        raise LakeDamaged(
            f"The Delta table of {topic} cannot be written: {words_of(error)}",
            remedy="Nothing is in it alone: remove its folder below delta/ in the lake, and it is made anew.",
        ) from error


def _export_once(lake: Lake, topic: str, kind: Kind) -> Exported | None:
    # Likewise.
    from engine.pipeline.delta.tables import Table

    table = Table(lake.root, topic, kind, lake_id=f"hbus {next(lake.commits()).at_ms}")
    # Looked at after the table, which is therefore of no later commit, unless this is another lake, or an older copy.
    state = lake.state()
    due = changes(lake, state, table.holds(), since=table.exported())
    for change in due:
        table.commit(change)
    if not due:
        return None
    files = state.files_of(topic, kind=kind)
    return Exported(topic, kind, table.folder, table.version(), len(files), sum(file.rows for file in files))
