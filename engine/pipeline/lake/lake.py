"""A lake: one folder, its log of commits, its files, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from engine.core.clock import Clock, SystemClock
from engine.core.numbers import whole
from engine.pipeline.lake.commits import CommitLog
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.files import sha256_of, write_whole
from engine.pipeline.lake.runs import RUNS, forget_dead_runs, left_behind, run_of
from engine.pipeline.lake.state import Act, Commit, LakeFile, LakeState, TopicCommit

#: How long a file stays that no longer counts: who began to read before that may end, seconds.
GRACE_S = 3_600.0
#: How often what is left lying is looked for, seconds: it takes a look at every file.
SWEEP_EVERY_S = 3_600.0
_SWEPT = ".swept"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is not as the log says."""

    #: The file or commit.
    what: str
    how: str


class Lake:
    """In one folder, which every process that reads or writes it shares. Thread-safe."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self.clock = clock or SystemClock()
        self._log = CommitLog(root)

    def state(self) -> LakeState:
        """What counts now: whoever reads the files it names reads one moment. Raises :class:`LakeDamaged`."""
        return self._log.state()

    def is_begun(self) -> bool:
        """Whether anything was ever committed to the folder as it is now; a look at one name."""
        return self._log.is_begun()

    def version(self) -> int:
        """Which commit is the last; costs next to nothing."""
        return self._log.version()

    def commits(self) -> Iterator[Commit]:
        """Its history, the first first."""
        return self._log.commits()

    def commits_after(self, version: int) -> list[Commit]:
        """Those that came after that one, the first first, for who knows the rest; the chain is not looked at."""
        later = takewhile(lambda commit: commit.version > version, self._log.newest_first())
        return list(later)[::-1]

    def following(
        self,
        state: LakeState,
        act: Act,
        run: str = "",
        *,
        topics: Mapping[str, TopicCommit] | None = None,
        added: Sequence[LakeFile] = (),
        removed: Sequence[str] = (),
        by: str = "",
        reason: str = "",
    ) -> Commit:
        """A commit that is to follow ``state``, as of now. See :class:`~engine.pipeline.lake.state.Commit`."""
        return Commit(
            version=state.version + 1,
            act=act,
            run=run,
            at_ms=self.clock.now_ms(),
            before=state.digest,
            topics=topics or {},
            added=added,
            removed=removed,
            by=by,
            reason=reason,
        )

    def publish(self, make: Callable[[LakeState], Commit]) -> LakeState:
        """See :meth:`~engine.pipeline.lake.commits.CommitLog.publish`."""
        return self._log.publish(make)

    def insist_on_the_commits(self) -> None:
        """Before something goes for good: what is kept beside the log, by which everybody reads it, says what it says.

        Walks through the whole log. Raises :class:`LakeDamaged`.
        """
        _, wrong = self._log.folded()
        if wrong:
            raise LakeDamaged(
                f"log/states/{wrong[0]} of the lake does not say what its commits say.",
                remedy="Somebody has changed it: remove log/states, which is made anew, and look who may write there.",
            )

    def run(self) -> AbstractContextManager[str]:
        """See :func:`~engine.pipeline.lake.runs.run_of`."""
        return run_of(self.root)

    def paths(self, files: list[LakeFile]) -> list[str]:
        """Where they lie, for whatever reads Parquet."""
        return [str(self.root / file.path) for file in files]

    def sweep(self) -> list[Path]:
        """Remove what dead runs left, and what counts no longer since :data:`GRACE_S`. Tells what was removed.

        Raises as :meth:`insist_on_the_commits` where there is something to remove.
        """
        state = self._log.state()
        removed: list[Path] = []
        recent = self._lately_removed()
        left = list(left_behind(self.root, state))
        if left:
            self.insist_on_the_commits()
        for path in left:
            # A run may have committed and ended between the two looks.
            if str(path.relative_to(self.root)) in recent or self._counts(path):
                continue
            path.unlink(missing_ok=True)
            removed.append(path)
        forget_dead_runs(self.root)
        return removed

    def sweep_when_due(self) -> list[Path]:
        """:meth:`sweep`, where nobody did so for :data:`SWEEP_EVERY_S`."""
        now_ms, mark = self.clock.now_ms(), self.root / RUNS / _SWEPT
        try:
            swept_ms = whole(mark.read_text(encoding="ascii")) or 0
        except FileNotFoundError:
            swept_ms = 0
        if now_ms - swept_ms < SWEEP_EVERY_S * 1000 or not mark.parent.exists():
            return []
        write_whole(mark, b"%d" % now_ms)
        return self.sweep()

    def verify(self, *, thoroughly: bool = True) -> Iterator[Flaw]:
        """What is wrong: of the log, whose hashes are a chain, of what is kept beside it, and of each file that counts
        by the log alone: there, of its size, and, ``thoroughly``, of its hash."""
        try:
            state, wrong = self._log.folded()
        except LakeDamaged as error:
            yield Flaw("log", str(error))
            return
        for name in wrong:
            yield Flaw(f"log/states/{name}", "does not say what the commits say")
        for file in state.files.values():
            path = self.root / file.path
            try:
                size = path.stat().st_size
                if size != file.bytes:
                    yield Flaw(file.path, f"has {size:,} bytes, and {file.bytes:,} were committed")
                elif thoroughly and sha256_of(path) != file.sha256:
                    yield Flaw(file.path, "has other content than was committed")
            except OSError as error:
                yield Flaw(file.path, f"cannot be read: {error.strerror or error}")

    def _counts(self, path: Path) -> bool:
        return str(path.relative_to(self.root)) in self._log.state().files

    def _lately_removed(self) -> set[str]:
        since_ms = self.clock.now_ms() - int(GRACE_S * 1000)
        recent = takewhile(lambda commit: commit.at_ms >= since_ms, self._log.newest_first())
        return {path for commit in recent for path in commit.removed}
