"""One run of the archive: what is there is planned, read and written in rounds, and each round is one commit.

A message is in the lake once: a commit says both which files count and how far each log was read, and a commit is made
whole or not at all. Two runs at once do no harm: the second to commit finds that its topics went on and gives up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.bus import BusConfig
from engine.pipeline.archive.rounds import LogProgress, pieces_wanted, rounds
from engine.pipeline.archive.tasks import ArchiveTask
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Act, Commit, LakeFile, LakeState, TopicCommit
from engine.pipeline.source.opening import opened
from engine.pipeline.source.planning import Loss, Portion, ReadPlan, counted_together, plan
from engine.pipeline.source.reached import LogReached, Reached
from engine.pipeline.source.reading import in_pieces

#: Runs tasks, wherever: the files of each, in their order.
Execute = Callable[[Sequence[ArchiveTask]], Iterable[list[LakeFile]]]
#: Is told after each round how many messages are in the lake, and of how many (``None`` where nobody counts).
Progress = Callable[[int, int | None], None]


@dataclass(slots=True)
class Archived:
    """What came of a run."""

    run: str
    #: Messages by topic.
    messages: dict[str, int] = field(default_factory=dict)
    losses: dict[str, list[Loss]] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class Archiver:
    """Archives topics of one store into one lake, ``tasks`` at a time in each round."""

    lake: Lake
    config: BusConfig
    execute: Execute
    cores: int = 2
    #: How many tasks a round has for each core.
    depth: int = 8

    def run(self, topics: Sequence[str], progress: Progress = lambda done, total: None) -> Archived:
        """All that these topics hold now and that is not in the lake yet.

        Raises ``Unavailable``, ``OSError``, :class:`~engine.pipeline.lake.errors.LakeDamaged`, :class:`Superseded`,
        and what ``execute`` raises; rounds that were committed count.
        """
        with self.lake.run() as run, opened(self.config) as rereads:
            outcome = Archived(run)
            state = self.lake.state()
            plans = {topic: plan(state.reached(topic), rereads.extents(topic)) for topic in topics}
            known: dict[str, Reached] = {topic: state.reached(topic) for topic in topics}
            logs = [
                LogProgress(
                    topic,
                    portion,
                    planned.reached[portion.log],
                    in_pieces(rereads, topic, portion, pieces_wanted(portion, self.cores)),
                )
                for topic, planned in plans.items()
                for portion in planned.portions
            ]
            # What is gone is told first, and with it logs that hold nothing new to read.
            self._tell_losses(run, plans, known, outcome)
            expected = counted_together(log.portion for log in logs)
            number = 0
            for pieces in rounds(logs, self.cores * self.depth):
                tasks = [
                    ArchiveTask(self.config, self.lake.root, run, number + index, log.topic, piece)
                    for index, (log, piece) in enumerate(pieces)
                ]
                number += len(tasks)
                self._commit(run, pieces, list(self.execute(tasks)), known, outcome)
                progress(sum(outcome.messages.values()), expected)
            return outcome

    def _tell_losses(
        self, run: str, plans: Mapping[str, ReadPlan], known: dict[str, Reached], outcome: Archived
    ) -> None:
        """Of what nothing is left to read, the log is as far as it ever will be; of the rest where its loss ended."""
        topics: dict[str, TopicCommit] = {}
        for topic, planned in plans.items():
            to_read = {portion.log: portion for portion in planned.portions}
            lost = {loss.log for loss in planned.losses}
            said = dict(known[topic])
            for log, end in planned.reached.items():
                if log not in to_read:
                    # A log that was never written to is nothing to tell.
                    said |= {log: end} if end.at or log in said else {}
                elif log in lost:
                    said[log] = _behind_the_loss(to_read[log], end)
            if planned.losses or said != known[topic]:
                topics[topic] = TopicCommit(said, planned.losses)
                outcome.losses.setdefault(topic, []).extend(planned.losses)
        if topics:
            self._publish(run, topics, [], known, outcome)

    def _commit(
        self,
        run: str,
        pieces: Sequence[tuple[LogProgress, Portion]],
        made: Sequence[Sequence[LakeFile]],
        known: dict[str, Reached],
        outcome: Archived,
    ) -> None:
        reached: dict[str, dict[str, LogReached]] = defaultdict(dict)
        losses: dict[str, list[Loss]] = defaultdict(list)
        for (log, piece), files in zip(pieces, made, strict=True):
            rows = sum(file.rows for file in files)
            reached[log.topic][log.portion.log] = log.has_read(piece, rows)
            outcome.messages[log.topic] = outcome.messages.get(log.topic, 0) + rows
            if (missing := log.missing) is not None:
                losses[log.topic].append(missing)
                outcome.losses.setdefault(log.topic, []).append(missing)
        topics = {
            topic: TopicCommit({**known[topic], **logs}, losses.get(topic, [])) for topic, logs in reached.items()
        }
        self._publish(run, topics, [file for files in made for file in files], known, outcome)

    def _publish(
        self,
        run: str,
        topics: Mapping[str, TopicCommit],
        files: Sequence[LakeFile],
        known: dict[str, Reached],
        outcome: Archived,
    ) -> None:
        def make(state: LakeState) -> Commit:
            for topic in topics:
                if state.reached(topic) != known[topic]:
                    raise Superseded(
                        f"Another run has archived {topic} meanwhile.", remedy="Nothing is to be done: it is archived."
                    )
            return self.lake.following(
                state,
                Act.ARCHIVE,
                run,
                topics=topics,
                added=files,
            )

        self.lake.publish(make)
        known.update({topic: said.reached for topic, said in topics.items()})
        outcome.commits += 1
        outcome.files += len(files)
        outcome.bytes += sum(file.bytes for file in files)


def _behind_the_loss(portion: Portion, end: LogReached) -> LogReached:
    """Where a log stands once its loss is told and nothing of what is left was read: told once, and not again."""
    return LogReached(portion.after, portion.added_before, end.life, portion.from_ms)
