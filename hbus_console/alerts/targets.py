"""What rules look at: each kind of target is brought by a feature, which knows its own tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from engine.core.subject import Subject

#: The longest pattern on names, in characters.
PATTERN_LIMIT = 100


@dataclass(frozen=True)
class Target:
    """One thing that rules may watch."""

    subject: Subject
    #: The :class:`~hbus_console.teams.models.Team` that answers for it, when one does.
    team_id: int | None
    #: Held by a person, itself or with what it belongs to.
    paused: bool
    created_ms: int

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: how tables of one kind of target tell them apart."""
        return self.subject.namespace, self.subject.name


@dataclass(frozen=True)
class Way:
    """Where somebody does what an advice names.

    Advice is people's text and old rules keep theirs, so the page looks for ``words`` in it, in any case.
    """

    words: tuple[str, ...]
    #: As the link says it.
    label: str
    #: Of a subject; empty where there is no such page.
    address: Callable[[Subject], str]

    def named_in(self, text: str) -> bool:
        """Whether a text speaks of it."""
        return any(re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) for word in self.words)


@dataclass(frozen=True)
class TargetKind:
    """One kind of target: the subjects there are of it, and the words for them.

    ``read`` gives all of them as they are now, in few queries however many there are.
    """

    #: The kind of its subjects: ``subscription``; where these are of several kinds, what they are called together.
    kind: str
    read: Callable[[], Iterable[Target]]
    #: What such a subject lies in, as sentences say it: ``topic``; empty: it is the entry of its namespace itself.
    within: str = ""
    #: A name, and a pattern on names, as forms propose them.
    example: str = ""
    example_pattern: str = ""
    #: What a name or a pattern with ``*`` looks like.
    names: str = r"[^\s\[\]?]+"
    #: Where the acts are that an advice may name; the page of the subject itself is always offered.
    ways: tuple[Way, ...] = ()
    #: Kinds of targets whose subjects are among them, beside those that ``read`` gives.
    beside: Callable[[], Iterable[TargetKind]] = tuple

    @property
    def words(self) -> str:
        """One of them, as sentences say it."""
        return self.kind.replace("-", " ")

    @property
    def namespace_words(self) -> str:
        """A namespace of theirs, likewise."""
        return self.within or self.words

    def is_pattern(self, text: str) -> bool:
        """Whether ``text`` can be a name or a pattern on names."""
        return re.fullmatch(self.names, text) is not None


class Targets:
    """All targets of one instant, read once. A kind that could not be read fails whoever asks for it, not the rest."""

    def __init__(self, kinds: Iterable[TargetKind]) -> None:
        self._read: dict[TargetKind, Sequence[Target]] = {}
        self._failed: dict[TargetKind, Exception] = {}
        self._beside: dict[TargetKind, Sequence[TargetKind]] = {}
        for kind in kinds:
            self._look(kind)

    def _look(self, kind: TargetKind) -> None:
        if kind in self._read or kind in self._failed:
            return
        try:
            self._read[kind] = tuple(kind.read())
            self._beside[kind] = tuple(kind.beside())
        except Exception as error:  # noqa: BLE001
            # Raised to who asks for them, see of().
            self._failed[kind] = error
        for each in self._beside.get(kind, ()):
            self._look(each)

    def __len__(self) -> int:
        return sum(len(targets) for targets in self._read.values())

    def of(self, kind: TargetKind) -> Sequence[Target]:
        """Those of one kind. Raises what kept them from being read."""
        if kind in self._failed:
            raise self._failed[kind]
        own = self._read.get(kind, ())
        return [*own, *chain.from_iterable(map(self.of, beside))] if (beside := self._beside.get(kind)) else own

    @cached_property
    def teams(self) -> Mapping[Subject, int]:
        """Who answers for each, as far as somebody does."""
        return {
            target.subject: target.team_id
            for targets in self._read.values()
            for target in targets
            if target.team_id is not None
        }
