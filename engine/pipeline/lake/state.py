"""What a lake holds, and the commits that made it so. Pure: folding the commits in their order gives the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from engine.core.clock import to_rfc3339
from engine.pipeline.source.planning import Loss
from engine.pipeline.source.reached import LogReached


class Act(StrEnum):
    """Why a commit was made."""

    ARCHIVE = "archive"
    COMPACTION = "compaction"
    RETENTION = "retention"
    ERASURE = "erasure"
    #: A person said how long a topic is kept, or that nothing of it may go.
    RULES = "rules"
    #: A transport has forgotten what it had of a topic.
    LEAVING = "leaving"


class Kind(StrEnum):
    """What the rows of a file are."""

    #: Messages as their transport has them; ``log`` is the transport's.
    MESSAGES = "messages"
    #: What the ledger tells of them: that they were published, and what became of each delivery. ``log`` is the kind.
    PUBLISHED = "published"
    DELIVERIES = "deliveries"


class LakeFile(msgspec.Struct, frozen=True, gc=False):
    """One file of rows of one log and one day, sorted by the hash of their key, each key's in its own order."""

    #: Below the lake's folder.
    path: str
    kind: Kind
    topic: str
    log: str
    #: The day of storing, UTC: ``2026-11-28``.
    date: str
    rows: int
    bytes: int
    #: What its rows take in memory, bytes.
    weight: int
    sha256: str
    #: When its first and its last message were stored, epoch milliseconds, and where. Of the ledger: the earliest and
    #: the latest time in it, and the lowest and the highest number of a row.
    first_ms: int
    last_ms: int
    first: str
    last: str


class TopicRules(msgspec.Struct, frozen=True, gc=False):
    """What may go of a topic. It is in the lake, where what it speaks of is: it outlives the topic."""

    #: How many days are kept, the present one among them; ``None``: all.
    keep_days: int | None = None
    #: Why nothing of it may go, for retention or for erasure; empty: no legal hold is on it.
    hold: str = ""


class Erased(msgspec.Struct, frozen=True, gc=False):
    """What was erased of a topic at once. Whose it was is told by the hash of the key, and not by the key."""

    key_hash: int
    at_ms: int
    #: How many rows, by the kind of the files they were in.
    rows: Mapping[Kind, int]


class TopicCommit(msgspec.Struct, frozen=True, gc=False):
    """What a commit says of one topic."""

    #: How far each log that it tells of is in the lake now.
    reached: Mapping[str, LogReached] = msgspec.field(default_factory=dict)
    #: Whose messages will never be in it.
    losses: Sequence[Loss] = ()
    #: The last row of the ledger that is in it, by the kind; of those up to it, which wait to be published are not.
    booked: Mapping[Kind, int] = msgspec.field(default_factory=dict)
    #: Those of them that were published since are in it up to this release; ``None``: as it was.
    released: int | None = None
    #: What may go from now on; ``None``: as before.
    rules: TopicRules | None = None
    #: The first day that was not taken by retention; empty: as before.
    kept_from: str = ""
    erased: Sequence[Erased] = ()


class Commit(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One change of the lake, whole or not at all."""

    version: int
    act: Act
    #: Of the run that made it; its files carry it in their names.
    run: str
    at_ms: int
    #: SHA-256 of the commit before, as it lies in its file; empty for the first.
    before: str
    topics: Mapping[str, TopicCommit] = msgspec.field(default_factory=dict)
    added: Sequence[LakeFile] = ()
    removed: Sequence[str] = ()
    #: Who wanted it, and why; empty where nobody did.
    by: str = ""
    reason: str = ""


class KnownLoss(msgspec.Struct, frozen=True, gc=False):
    """A loss, and when it was found."""

    loss: Loss
    at_ms: int


class TopicHeld(msgspec.Struct, frozen=True, gc=False):
    """What a lake has of one topic."""

    reached: Mapping[str, LogReached]
    losses: Sequence[KnownLoss]
    #: When it was archived last, epoch milliseconds.
    archived_ms: int
    booked: Mapping[Kind, int] = msgspec.field(default_factory=dict)
    released: int = 0
    rules: TopicRules = TopicRules()
    #: What was stored before that day was taken by retention; empty: nothing was.
    kept_from: str = ""
    erased: Sequence[Erased] = ()


_NOTHING = TopicHeld({}, (), 0)


class LakeState(msgspec.Struct, frozen=True, gc=False):
    """All that counts, after one commit."""

    version: int = 0
    #: SHA-256 of the last commit's file.
    digest: str = ""
    topics: Mapping[str, TopicHeld] = msgspec.field(default_factory=dict)
    #: By path, in the order of their commits and within one as it names them: of one log, the order of storing.
    files: Mapping[str, LakeFile] = msgspec.field(default_factory=dict)

    def held(self, topic: str) -> TopicHeld:
        """What it has of one topic, of none that it knows nothing."""
        return self.topics.get(topic, _NOTHING)

    def by_topic(self, topics: Iterable[str]) -> dict[str, LakeState]:
        """For who asks much of each of them: the same with the files of that topic alone."""
        files: dict[str, dict[str, LakeFile]] = {topic: {} for topic in topics}
        for path, file in self.files.items():
            if file.topic in files:
                files[file.topic][path] = file
        return {topic: msgspec.structs.replace(self, files=of_it) for topic, of_it in files.items()}

    def reached(self, topic: str) -> Mapping[str, LogReached]:
        return self.held(topic).reached

    def files_of(
        self, topic: str, from_date: str = "", to_date: str = "~", kind: Kind = Kind.MESSAGES
    ) -> list[LakeFile]:
        """Of one topic, of the days from one to another, both included."""
        return [
            file
            for file in self.files.values()
            if file.topic == topic and file.kind is kind and from_date <= file.date <= to_date
        ]


def date_of(at_ms: int) -> str:
    """The day of an instant in UTC, as files have it."""
    return to_rfc3339(at_ms)[:10]


class DoesNotFit(ValueError):
    """A commit says of the lake before it what is not so."""


def after(state: LakeState, commit: Commit, digest: str) -> LakeState:
    """The lake with that commit. Raises :class:`DoesNotFit`."""
    if commit.version != state.version + 1 or commit.before != state.digest:
        raise DoesNotFit(f"commit {commit.version} does not follow commit {state.version}")
    missing = [path for path in commit.removed if path not in state.files]
    if missing:
        raise DoesNotFit(f"commit {commit.version} removes {missing[0]}, which is not there")
    files = _with(state.files, commit)
    topics = dict(state.topics)
    for name, said in commit.topics.items():
        held = topics.get(name, _NOTHING)
        topics[name] = TopicHeld(
            {**held.reached, **said.reached},
            [*held.losses, *(KnownLoss(loss, commit.at_ms) for loss in said.losses)],
            commit.at_ms if commit.act is Act.ARCHIVE else held.archived_ms,
            {**held.booked, **said.booked},
            held.released if said.released is None else said.released,
            said.rules or held.rules,
            max(said.kept_from, held.kept_from),
            [*held.erased, *said.erased],
        )
    return LakeState(commit.version, digest, topics, files)


def _with(files: Mapping[str, LakeFile], commit: Commit) -> dict[str, LakeFile]:
    """A file that takes the place of others stands where the first of its log and day stood, and so the order stays."""
    added = {file.path: file for file in commit.added}
    if len(added) != len(commit.added) or added.keys() & files.keys():
        raise DoesNotFit(f"commit {commit.version} adds a file twice")
    if not commit.removed:
        return {**files, **added}
    removed = set(commit.removed)
    instead: dict[_Place, list[LakeFile]] = {}
    for file in commit.added:
        instead.setdefault(_place(file), []).append(file)
    made: dict[str, LakeFile] = {}
    for path, file in files.items():
        if path not in removed:
            made[path] = file
        else:
            made.update({new.path: new for new in instead.pop(_place(file), ())})
    return made | {new.path: new for place in instead.values() for new in place}


_Place = tuple[Kind, str, str, str]


def _place(file: LakeFile) -> _Place:
    return file.kind, file.topic, file.log, file.date
