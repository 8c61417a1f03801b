"""An archive run in rounds, each committed before the next: what was committed is not done again.

Pure: how the pieces of a log follow each other, and what is known of a log once some of them were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.pipeline.source.planning import Loss, Portion, Why
from engine.pipeline.source.reached import LogReached

#: About how many messages one task reads: so many that its start is nothing beside it, and no more than it sorts.
TASK = 200_000


@dataclass(slots=True)
class LogProgress:
    """One log of one topic in one run."""

    topic: str
    portion: Portion
    #: How far it is when all of it is read.
    end: LogReached
    pieces: Sequence[Portion]
    read: int = 0
    done: int = 0

    def has_read(self, piece: Portion, rows: int) -> LogReached:
        """How far it is once the next piece is in the lake, with so many messages.

        What is missing so far is missing of its count, and so found by whoever goes on.
        """
        assert piece is self.pieces[self.done]
        self.done += 1
        self.read += rows
        if self.done == len(self.pieces):
            return self.end
        before = self.portion.added_before
        return LogReached(piece.upto, None if before is None else before + self.read, self.end.life, piece.until_ms)

    @property
    def missing(self) -> Loss | None:
        """What retention took while it was read; told when all of it was read."""
        expected = self.portion.messages
        if self.done < len(self.pieces) or expected is None or self.read >= expected:
            return None
        return Loss(self.portion.log, Why.TRIMMED, self.portion.after, "", expected - self.read)


def pieces_wanted(portion: Portion, cores: int) -> int:
    """In how many a portion is cut."""
    if portion.messages is None:
        return 4 * cores
    if portion.messages <= TASK // 10:
        return 1
    return max(cores, -(-portion.messages // TASK))


def rounds(logs: Sequence[LogProgress], size: int) -> Iterator[list[tuple[LogProgress, Portion]]]:
    """All pieces of all logs, ``size`` at a time, those of one log in their order."""
    waiting = [(log, piece) for log in logs for piece in log.pieces]
    for start in range(0, len(waiting), size):
        yield waiting[start : start + size]
