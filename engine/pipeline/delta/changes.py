"""What is to be committed to a table, so that it has the files that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.pipeline.delta.places import name_in_table
from engine.pipeline.lake.files import DATA, folder_of
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Act, Commit, Kind, LakeFile, LakeState

#: So many commits of the lake become as many of a table; of more, only what they come to.
MOST_COMMITS = 500


@dataclass(frozen=True, slots=True)
class Holds:
    """What a table has."""

    topic: str
    kind: Kind
    #: The names of its files.
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit of the table does."""

    added: Sequence[LakeFile]
    #: As they are called in the table.
    removed: Sequence[str]
    #: Whether it has other rows then. Of small files that became one, who follows its changes is told nothing.
    of_rows: bool
    #: The commit of the lake that the table is as of then, and when that was made, epoch milliseconds.
    version: int
    at_ms: int


def changes(lake: Lake, state: LakeState, table: Holds, *, since: int | None) -> list[Change]:
    """What makes of ``table`` one with the files of ``state``; nothing where it is one.

    Commit by commit where the table is known to be as of the lake's commit ``since``; else all at once.
    """
    wanted = {name_in_table(file.path): file for file in state.files_of(table.topic, kind=table.kind)}
    if table.names == wanted.keys():
        return []
    if since is not None and since < state.version <= since + MOST_COMMITS:
        commits = (commit for commit in lake.commits_after(since) if commit.version <= state.version)
        steps = [step for commit in commits if (step := _step(commit, table)) is not None]
        # What was merged an hour ago may be gone before it was ever in the table.
        if _after(table, steps) == wanted.keys() and _are_there(lake, steps):
            return steps
    added = [file for name, file in wanted.items() if name not in table.names]
    return [Change(added, sorted(table.names - wanted.keys()), True, state.version, lake.clock.now_ms())]


def _step(commit: Commit, table: Holds) -> Change | None:
    added = [file for file in commit.added if file.topic == table.topic and file.kind is table.kind]
    within = f"{DATA}/{table.kind}/{folder_of(table.topic)}/"
    removed = [name_in_table(path) for path in commit.removed if path.startswith(within)]
    if not added and not removed:
        return None
    return Change(added, removed, commit.act is not Act.COMPACTION, commit.version, commit.at_ms)


def _after(table: Holds, steps: Sequence[Change]) -> set[str]:
    names = set(table.names)
    for step in steps:
        names.difference_update(step.removed)
        names.update(name_in_table(file.path) for file in step.added)
    return names


def _are_there(lake: Lake, steps: Sequence[Change]) -> bool:
    return all((lake.root / file.path).exists() for step in steps for file in step.added)
