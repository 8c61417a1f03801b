"""The log of commits: one file each, made whole or not at all, each with the hash of the one before.

A commit is a file ``log/<version>.json``, put there by a link that fails where one is already: of two that would be
the same version one wins, and the other looks again. From time to time the state is kept beside, so that nobody need
read the log from its beginning; it is a convenience and never the truth. Needs a file system with hard links that all
who write share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from engine.core.prepared import prepared
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.files import write_first, write_whole
from engine.pipeline.lake.state import Commit, DoesNotFit, LakeState, after

#: After how many commits the state is kept.
EVERY = 20
#: How many of those are left lying.
KEPT = 3

_encode = msgspec.json.Encoder(order="deterministic").encode


class CommitLog:
    """Of the lake in one folder. Thread-safe; any number of processes."""

    def __init__(self, root: Path) -> None:
        self._log = root / "log"
        self._states = root / "log" / "states"
        #: A version that was there when it was looked for last.
        self._seen = 0

    def state(self) -> LakeState:
        """As of the last commit. Raises :class:`LakeDamaged`."""
        state = self._kept()
        for raw in self._raw_after(state.version):
            state = self._after(state, raw)
        return state

    def is_begun(self) -> bool:
        """Whether the first commit is there."""
        return self._path(1).exists()

    def version(self) -> int:
        """That of the last commit: a look at what came since the last one, and at no content."""
        kept = (int(path.stem) for path in self._states.glob("*.json") if path.stem.isdigit())
        version = self._seen or max(kept, default=0)
        while self._path(version + 1).exists():
            version += 1
        self._seen = version
        return version

    def commits(self) -> Iterator[Commit]:
        """All of them, the first first, each checked against the one before. Raises :class:`LakeDamaged`."""
        state = LakeState()
        for raw in self._raw_after(0):
            state = self._after(state, raw)
            yield _read(raw, state.version)

    def folded(self) -> tuple[LakeState, list[str]]:
        """The state by the commits alone, from the first on; and which of those that are kept beside say otherwise.

        Raises :class:`LakeDamaged`.
        """
        kept = {path: _state_in(path) for path in sorted(self._states.glob("*.json"))}
        # One that cannot be read is read by nobody.
        beside = {path: state for path, state in kept.items() if state is not None}
        said = {state.version: _plain(state) for state in beside.values()}
        state, right = LakeState(), set[int]()
        for raw in self._raw_after(0):
            state = self._after(state, raw)
            if state.version in said and said[state.version] == _plain(state):
                right.add(state.version)
        return state, [path.name for path, other in beside.items() if other.version not in right]

    def newest_first(self) -> Iterator[Commit]:
        """Backwards from the last, for who looks at what was done of late; the chain is not looked at."""
        for version in range(self.version(), 0, -1):
            yield _read(self._path(version).read_bytes(), version)

    def publish(self, make: Callable[[LakeState], Commit]) -> LakeState:
        """Make a commit out of the state it is to follow, and again where somebody else was first, until it counts.

        ``make`` gives a commit of the version after the state's, or raises to give up. Raises what it raises, and
        :class:`DoesNotFit` for one that does not fit that state; then nothing was changed.
        """
        while True:
            state = self.state()
            raw = _encode(make(state))
            made = after(state, _read(raw, state.version + 1), hashlib.sha256(raw).hexdigest())
            if self._put(made.version, raw):
                if made.version % EVERY == 0:
                    self._keep(made)
                return made

    def _put(self, version: int, raw: bytes) -> bool:
        """Whether it is the commit of that version now."""
        self._log.mkdir(mode=0o700, parents=True, exist_ok=True)
        return write_first(self._path(version), raw)

    def _path(self, version: int) -> Path:
        return self._log / f"{version:020}.json"

    def _raw_after(self, version: int) -> Iterator[bytes]:
        while True:
            version += 1
            try:
                yield self._path(version).read_bytes()
            except FileNotFoundError:
                self._insist_on_the_end(version)
                return

    def _insist_on_the_end(self, version: int) -> None:
        """A commit that is missing among others is no end."""
        try:
            later = [path.name for path in self._log.glob("*.json") if path.stem.isdigit() and int(path.stem) > version]
        except FileNotFoundError:
            return
        # One may have come between the two looks.
        if later and not self._path(version).exists():
            raise LakeDamaged(
                f"Commit {version} of the lake is missing, and later ones are there ({min(later)}).",
                remedy="Restore log/ from a copy; no file below data/ was touched.",
            )

    def _after(self, state: LakeState, raw: bytes) -> LakeState:
        try:
            return after(state, _read(raw, state.version + 1), hashlib.sha256(raw).hexdigest())
        except DoesNotFit as error:
            raise LakeDamaged(
                f"The log of the lake does not hold together: {error}.", remedy="Restore log/ from a copy."
            ) from error

    def _kept(self) -> LakeState:
        """The newest state that was kept and can be read; the empty one where none is."""
        for path in sorted(self._states.glob("*.json"), reverse=True):
            if (state := _state_in(path)) is not None:
                return state
        return LakeState()

    def _keep(self, state: LakeState) -> None:
        self._states.mkdir(mode=0o700, exist_ok=True)
        # Not deterministic, which would sort its files by their paths: their order is the order of storing.
        write_whole(self._states / f"{state.version:020}.json", msgspec.json.encode(state))
        for old in sorted(self._states.glob("*.json"))[:-KEPT]:
            old.unlink(missing_ok=True)


def _state_in(path: Path) -> LakeState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepared(LakeState))
    except (OSError, msgspec.DecodeError):
        return None


def _plain(state: LakeState) -> tuple[Any, list[str]]:
    """Equal where they say the same, whoever made them: the order of their files counts, and no other order."""
    return msgspec.json.decode(msgspec.json.encode(state)), list(state.files)


def _read(raw: bytes, version: int) -> Commit:
    try:
        return msgspec.json.decode(raw, type=prepared(Commit))
    except msgspec.DecodeError as error:
        raise LakeDamaged(
            f"Commit {version} of the lake cannot be read: {error}.", remedy="Restore log/ from a copy."
        ) from error
