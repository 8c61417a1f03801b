"""One run of the archive over the ledger: what it tells of archived topics is put into the lake, each row once.

A commit says both which files count and how far each topic's rows were taken. Rows are read as of one moment, up to a
place that was marked before; what the ledger let go of between two places is counted by its retention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connections

from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.row_files import RowFiles
from engine.pipeline.lake.state import Act, Commit, Kind, LakeFile, LakeState, TopicCommit
from engine.pipeline.source.planning import Loss, Why
from hbus_console.database import snapshot
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.places import (
    BEGINNING,
    LedgerAt,
    end_of_ledger,
    forget_places,
    let_go_beyond,
    mark_end,
    places_known,
    wait_for_writers,
)
from hbus_console.pipelines.ledger_rows import SOURCES, LedgerSource

#: So many rows of other topics are looked through again at each run before a commit says that they were.
LOOKED_THROUGH = 50_000


@dataclass(slots=True)
class LedgerArchived:
    """What came of a run."""

    run: str = ""
    #: Rows by kind and topic.
    rows: dict[Kind, dict[str, int]] = field(default_factory=dict)
    losses: dict[str, list[Loss]] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What is taken of one kind in a run."""

    source: LedgerSource
    upto: LedgerAt
    files: Sequence[LakeFile]
    losses: Mapping[str, Loss]


@dataclass(frozen=True, slots=True)
class LedgerArchiver:
    """Archives what the ledger tells of topics into one lake."""

    lake: Lake
    #: All topics that are archived; the places that none of them needs are forgotten.
    archived: Collection[str]
    #: Called between two pages; what it raises ends the run.
    between: Callable[[], None] = lambda: None

    def run(self, topics: Collection[str]) -> LedgerArchived:
        """All that the ledger tells of these topics and that is not in the lake yet, in one commit; in none where
        nothing is new. A topic that the lake knows nothing of begins with what is there.

        Raises ``Unavailable``, ``OSError``, :class:`~engine.pipeline.lake.errors.LakeDamaged`, :class:`Superseded`,
        and what the database raises.
        """
        state, outcome = self.lake.state(), LedgerArchived()
        wanted = [source for source in SOURCES if _has_news(source, state, topics)]
        if not wanted:
            return outcome
        with self.lake.run() as outcome.run:
            stretches = [self._take(source, outcome.run, state, topics) for source in wanted]
            after = self._publish(outcome, state, topics, stretches)
        for source in wanted:
            _forget(source, after, self.archived)
        return outcome

    def _take(self, source: LedgerSource, run: str, state: LakeState, topics: Collection[str]) -> _Stretch:
        upto = mark_end(source.model)
        wait_for_writers(source.model)
        files, losses = RowFiles(self.lake.root, source.kind, f"{run}-{source.kind}"), dict[str, Loss]()
        starts: dict[LedgerAt, list[str]] = defaultdict(list)
        with snapshot(connections[LEDGER]):
            for known, of_it in _by_place(source, state, topics).items():
                if known is None:
                    starts[BEGINNING] += of_it
                elif (gone := let_go_beyond(source.model, known)) is not None:
                    starts[known] += of_it
                    losses |= _counted(source, known, gone, let_go_beyond(source.model, upto) or {}, of_it)
                else:
                    for topic in of_it:
                        at, losses[topic] = self._uncounted(source, known, upto, topic)
                        starts[at].append(topic)
            for at, of_it in starts.items():
                for page in source.beyond(at, upto, of_it):
                    files.add(page.rows, page.at_ms)
                    self.between()
        return _Stretch(source, upto, files.close(), losses)

    def _uncounted(self, source: LedgerSource, known: LedgerAt, upto: LedgerAt, topic: str) -> tuple[LedgerAt, Loss]:
        """Where to go on in a ledger that does not know the place that the lake has come to, and what may be gone."""
        if upto.row_id >= known.row_id:
            # The topic was not archived for so long that the ledger reaches back to its place no more.
            return known, Loss(source.kind, Why.TRIMMED, str(known.row_id), "", None)
        # Another ledger, or a copy of this one: that knows a place to which the lake had come before.
        there, common = places_known(source.model), BEGINNING
        for commit in self.lake.commits():
            said = commit.topics.get(topic)
            if said is not None and source.kind in said.booked:
                at = LedgerAt(said.booked[source.kind], (said.released or 0) if source.kind is Kind.PUBLISHED else 0)
                common = at if at in there else common
        return common, Loss(source.kind, Why.EMPTIED, str(known.row_id), "", None)

    def _publish(
        self, outcome: LedgerArchived, before: LakeState, topics: Collection[str], stretches: Sequence[_Stretch]
    ) -> LakeState:
        files = [file for stretch in stretches for file in stretch.files]
        said = _said(topics, stretches)

        def make(state: LakeState) -> Commit:
            for stretch in stretches:
                for topic in topics:
                    if _reached(stretch.source, state, topic) != _reached(stretch.source, before, topic):
                        raise Superseded(
                            f"Another run has archived what the ledger tells of {topic} meanwhile.",
                            remedy="Nothing is to be done: it is archived.",
                        )
            return self.lake.following(
                state,
                Act.ARCHIVE,
                outcome.run,
                topics=said,
                added=files,
            )

        after = self.lake.publish(make)
        for file in files:
            of_kind = outcome.rows.setdefault(file.kind, {})
            of_kind[file.topic] = of_kind.get(file.topic, 0) + file.rows
        outcome.losses = {topic: list(each.losses) for topic, each in said.items() if each.losses}
        outcome.commits, outcome.files, outcome.bytes = 1, len(files), sum(file.bytes for file in files)
        return after


def _said(topics: Collection[str], stretches: Sequence[_Stretch]) -> dict[str, TopicCommit]:
    booked = {stretch.source.kind: stretch.upto.row_id for stretch in stretches}
    released = next((stretch.upto.release_id for stretch in stretches if stretch.source.kind is Kind.PUBLISHED), None)
    return {
        topic: TopicCommit(
            losses=[stretch.losses[topic] for stretch in stretches if topic in stretch.losses],
            booked=booked,
            released=released,
        )
        for topic in topics
    }


def _reached(source: LedgerSource, state: LakeState, topic: str) -> LedgerAt | None:
    held = state.topics.get(topic)
    if held is None or source.kind not in held.booked:
        return None
    return LedgerAt(held.booked[source.kind], held.released if source.kind is Kind.PUBLISHED else 0)


def _by_place(source: LedgerSource, state: LakeState, topics: Collection[str]) -> dict[LedgerAt | None, list[str]]:
    """Mostly they are all at one."""
    found: dict[LedgerAt | None, list[str]] = defaultdict(list)
    for topic in topics:
        found[_reached(source, state, topic)].append(topic)
    return found


def _has_news(source: LedgerSource, state: LakeState, topics: Collection[str]) -> bool:
    """Costs a look at the ends of two indexes where nothing came, and one at what came of other topics."""
    end = end_of_ledger(source.model)
    if end is None:
        return False
    for at, of_it in _by_place(source, state, topics).items():
        if at is None or max(end.row_id - at.row_id, end.release_id - at.release_id) >= LOOKED_THROUGH:
            return True
        if end.row_id < at.row_id:
            # Its last rows were let go of, or it is another ledger.
            if let_go_beyond(source.model, at) is None:
                return True
        elif end != at and source.has_beyond(at, end, of_it):
            return True
    return False


def _counted(
    source: LedgerSource,
    known: LedgerAt,
    gone: Mapping[str, int],
    later: Mapping[str, int],
    topics: Collection[str],
) -> dict[str, Loss]:
    """What is gone between two places: beyond the first, and not beyond the second."""
    counts = {topic: gone.get(topic, 0) - later.get(topic, 0) for topic in topics}
    return {
        topic: Loss(source.kind, Why.TRIMMED, str(known.row_id), "", count) for topic, count in counts.items() if count
    }


def _forget(source: LedgerSource, state: LakeState, every: Collection[str]) -> None:
    """Places that no archived topic goes on from; one that is archived no more may be again."""
    held = {at for topic in state.topics if (at := _reached(source, state, topic)) is not None}
    places = [at for topic in every if (at := _reached(source, state, topic)) is not None]
    if places:
        passed = LedgerAt(min(at.row_id for at in places), min(at.release_id for at in places))
        forget_places(source.model, passed, held)
