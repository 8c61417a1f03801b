"""When what a log stored came into the lake, and between which times something of it was lost: out of the commits.

A commit says up to which moment of storing it took a log. So of every message it is known when it was archived, in
whatever file it lies by now. What was gathered is kept beside the sides, and only newer commits are read again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.core.prepared import prepared
from engine.pipeline.lake.files import write_whole
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Commit

#: Another number makes what was kept worthless.
_FORM = 1
_NAME = "history.msgpack"


class LogHistory(msgspec.Struct, gc=False):
    """Of one log, step by step: up to when of storing it was archived, and when that was, epoch milliseconds."""

    stored_ms: list[int] = []
    archived_ms: list[int] = []

    def within(self, first_ms: int, last_ms: int) -> LogHistory:
        """The steps in which a file of these times was archived."""
        start, end = bisect_left(self.stored_ms, first_ms), bisect_left(self.stored_ms, last_ms)
        return LogHistory(self.stored_ms[start : end + 1], self.archived_ms[start : end + 1])

    def archived_after(self, stored: NDArray[np.int64]) -> NDArray[np.float32]:
        """How long after it was stored each was archived, milliseconds; NaN where nothing tells."""
        if not self.stored_ms:
            return np.full(len(stored), np.nan, np.float32)
        step = np.searchsorted(np.array(self.stored_ms, np.int64), stored)
        archived = np.array([*self.archived_ms, 0], np.int64)[step]
        return np.where(step < len(self.stored_ms), archived - stored, np.nan).astype(np.float32)


class LostSpan(msgspec.Struct, frozen=True, gc=False):
    """When what a loss speaks of was stored, epoch milliseconds, as closely as the commits tell."""

    log: str
    from_ms: int
    until_ms: int


class TopicHistory(msgspec.Struct, gc=False):
    logs: dict[str, LogHistory] = {}
    lost: list[LostSpan] = []


class History(msgspec.Struct, gc=False):
    """Of all topics, up to one commit."""

    form: int = _FORM
    version: int = 0
    #: Of which commits it is.
    last: str = ""
    topics: dict[str, TopicHistory] = {}

    def of(self, topic: str) -> TopicHistory:
        return self.topics.get(topic) or TopicHistory()

    def take(self, commit: Commit) -> None:
        """The next one."""
        self.version, self.last = commit.version, _mark(commit)
        for name, said in commit.topics.items():
            topic = self.topics.setdefault(name, TopicHistory())
            before = {log: steps.stored_ms[-1] for log, steps in topic.logs.items()}
            for log, reached in said.reached.items():
                # Where a topic was made anew its clock goes on.
                if reached.at_ms > before.get(log, 0):
                    steps = topic.logs.setdefault(log, LogHistory())
                    steps.stored_ms.append(reached.at_ms)
                    steps.archived_ms.append(commit.at_ms)
            for loss in said.losses:
                reached_ms = said.reached[loss.log].at_ms if loss.log in said.reached else 0
                topic.lost.append(LostSpan(loss.log, before.get(loss.log, 0), reached_ms or commit.at_ms))


def history_of(lake: Lake, sides: Path) -> History:
    """Up to the last commit. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged` and ``OSError``."""
    known = _kept(sides / _NAME)
    news = lake.commits_after(max(0, known.version - 1))
    if known.version:
        if news and news[0].version == known.version and _mark(news[0]) == known.last:
            news = news[1:]
        else:
            # The lake was restored from a copy, and went on from there.
            known, news = History(), lake.commits_after(0)
    for commit in news:
        known.take(commit)
    if news:
        sides.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(sides / _NAME, msgspec.msgpack.encode(known))
    return known


def _kept(path: Path) -> History:
    try:
        kept = msgspec.msgpack.decode(path.read_bytes(), type=prepared(History))
    except (OSError, msgspec.DecodeError):
        return History()
    return kept if kept.form == _FORM else History()


def _mark(commit: Commit) -> str:
    """Tells it from another of its version."""
    return f"{commit.before} {commit.run} {commit.at_ms}"


def in_a_span(moments: NDArray[np.int64], spans: Iterable[LostSpan], slack_ms: int) -> NDArray[np.bool_]:
    """Which of these moments lie in one of the spans, or so close that two clocks may differ by it."""
    found = np.zeros(len(moments), bool)
    for span in spans:
        found |= (moments >= span.from_ms - slack_ms) & (moments <= span.until_ms + slack_ms)
    return found
