"""What a node needs of a control plane, wherever that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from engine.quota.protocol import Alloc, KeptRule, Want


class KeptBook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rules as they were published: a version, and what whoever published them wants nodes to know."""

    version: int
    text: bytes


class ControlPlane(Protocol):
    """Allocates tokens. Thread-safe; every method raises :class:`~engine.core.errors.Unavailable`.

    A call that raised may have been carried out: a Want that is sent again under its id is answered as the first time.
    """

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        """An answer to each, in one round trip. Each is atomic by itself."""
        ...

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        """Go over to a newer version of the rules; ``False``, and nothing changes, when it is not newer."""
        ...

    def version(self) -> int:
        """The version of the rules in force; 0 while there are none."""
        ...

    def book(self) -> KeptBook | None:
        """What was published last."""
        ...
