"""Erasure: what bears one key is taken out of every file, and of whom is told by the hash of the key alone.

Files never change: those that hold such rows are written again without them. Messages of that key go with all of their
attributes, and so does what the ledger told of them. What retention has not taken of the topic itself, and copies of
the lake, are not reached.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.core.errors import BadInput, Conflict, NotThere
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.reading import read_checked
from engine.pipeline.lake.schema import HASHED, KEY_HASH, LEDGER_ID, LEDGER_SOURCE, key_hash
from engine.pipeline.lake.state import Act, Commit, Erased, Kind, LakeFile, LakeState, TopicCommit
from engine.pipeline.lake.writing import path_of, write_file

#: Kinds of files whose rows bear a key, and where each has the id of a message.
_KEYED = (Kind.MESSAGES, Kind.PUBLISHED)
_ID = {Kind.MESSAGES: "id", Kind.PUBLISHED: "message_id", Kind.DELIVERIES: "message_id"}


class UnderHold(Conflict):
    """A legal hold is on the topic: nothing of it may go."""

    title = "A legal hold is on it"


def erase(lake: Lake, topic: str, key: str, *, by: str, reason: str) -> Erased:
    """Take all that bears ``key`` out of what the lake has of ``topic``: whole, or not at all.

    The former files are gone after :data:`~engine.pipeline.lake.lake.GRACE_S`, with the next sweep. Raises
    :class:`BadInput`, :class:`NotThere` where nothing bears it, :class:`UnderHold`, ``OSError``, and
    :class:`~engine.pipeline.lake.errors.LakeDamaged` for a file that is not as it was committed.
    """
    if not key:
        raise BadInput("No key is named.", remedy="Name the ordering key whose messages are to go.", field="key")
    lake.insist_on_the_commits()
    with lake.run() as run:
        work = _Erasure(lake, run, topic, key, by, reason)
        while True:
            work.examine(lake.state())
            try:
                lake.publish(work.commit)
            except Superseded:
                # Files came or were merged meanwhile: they are looked through as well.
                continue
            return work.told


@dataclass(slots=True)
class _Erasure:
    """One erasure in one run: files that were looked through, and what they become. Not thread-safe."""

    lake: Lake
    run: str
    topic: str
    key: str
    by: str
    reason: str
    #: By the path of a file: what is left of it, itself where nothing of it is to go.
    left: dict[str, LakeFile | None] = field(default_factory=dict)
    _removed: dict[str, int] = field(default_factory=dict)
    _kinds: dict[str, Kind] = field(default_factory=dict)
    #: Those of the messages that bear the key, each with its source.
    _ids: set[tuple[str, str]] = field(default_factory=set)
    #: What the last commit that was made says of it.
    told: Erased = field(init=False)

    def examine(self, state: LakeState) -> None:
        """Look through the files that are new since the last time. Raises as :func:`erase`."""
        _insist_on_no_hold(state, self.topic)
        files = [file for file in state.files.values() if file.topic == self.topic]
        paths = {file.path for file in files}
        for path in self.left.keys() - paths:
            self._forget(path)
        known = len(self._ids)
        for file in files:
            if file.kind in _KEYED and file.path not in self.left:
                self._examine(file)
        for file in files:
            if file.kind is Kind.DELIVERIES and (file.path not in self.left or len(self._ids) > known):
                self._examine(file)
        if not any(self._removed.values()):
            raise NotThere(
                f"The lake has nothing of that key in {self.topic}.",
                remedy="Is it the key as it was published, and this topic?",
                field="key",
            )

    def commit(self, state: LakeState) -> Commit:
        """Of a lake that has these files of the topic and no others; else raises :class:`Superseded`."""
        _insist_on_no_hold(state, self.topic)
        if {file.path for file in state.files.values() if file.topic == self.topic} != self.left.keys():
            raise Superseded("The lake went on meanwhile.", remedy="Nothing is to be done.")
        changed = [path for path, rows in self._removed.items() if rows]
        self.told = Erased(key_hash(self.key), self.lake.clock.now_ms(), self._rows())
        return self.lake.following(
            state,
            Act.ERASURE,
            self.run,
            topics={self.topic: TopicCommit(erased=[self.told])},
            added=[left for path in changed if (left := self.left[path]) is not None],
            removed=changed,
            by=self.by,
            reason=self.reason,
        )

    def _rows(self) -> dict[Kind, int]:
        rows: Counter[Kind] = Counter()
        for path, removed in self._removed.items():
            rows[self._kinds[path]] += removed
        return {kind: number for kind, number in rows.items() if number}

    def _forget(self, path: str) -> None:
        del self.left[path], self._removed[path], self._kinds[path]

    def _examine(self, file: LakeFile) -> None:
        table = read_checked(self.lake.root, file)
        theirs = pc.fill_null(self._theirs(file.kind, table), False)
        rest = table.filter(pc.invert(theirs))
        self._kinds[file.path] = file.kind
        self._removed[file.path] = table.num_rows - rest.num_rows
        self.left[file.path] = file if rest.num_rows == table.num_rows else self._without(file, rest)

    def _theirs(self, kind: Kind, table: pa.Table) -> pa.ChunkedArray:
        """Which rows are to go."""
        if kind in _KEYED:
            theirs = pc.and_(pc.equal(table[KEY_HASH], key_hash(self.key)), pc.equal(table[HASHED[kind]], self.key))
            found = table.filter(pc.fill_null(theirs, False))
            pairs = zip(found[_ID[kind]].to_pylist(), found["source"].to_pylist(), strict=True)
            self._ids.update((id_[:LEDGER_ID], source[:LEDGER_SOURCE]) for id_, source in pairs)
            return theirs
        # Who repeats a publish knows the id alone.
        alone = pa.array(sorted({id_ for id_, _ in self._ids}), pa.string())
        both = pa.array(sorted(f"{id_}\0{source}" for id_, source in self._ids), pa.string())
        named = pc.binary_join_element_wise(table[_ID[kind]], table["source"], "\0")
        return pc.if_else(
            pc.is_null(table["source"]),
            pc.is_in(table[_ID[kind]], value_set=alone),
            pc.is_in(named, value_set=both),
        )

    def _without(self, file: LakeFile, rest: pa.Table) -> LakeFile | None:
        if not rest.num_rows:
            return None
        path = path_of(file.kind, file.topic, file.date, f"{self.run}-{secrets.token_hex(4)}")
        return write_file(self.lake.root, rest, msgspec.structs.replace(file, path=path, rows=rest.num_rows))


def _insist_on_no_hold(state: LakeState, topic: str) -> None:
    if hold := state.held(topic).rules.hold:
        raise UnderHold(
            f"Nothing of {topic} may be erased: {hold}",
            remedy="Have the legal hold lifted by who answers for it, and then erase.",
        )
