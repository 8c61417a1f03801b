"""All that is wrong with what somebody sent, told at once: who mends one field does not learn of the next by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.core.errors import BadInput


class ManyFaults(BadInput):
    """Several inputs were refused. It reads as the first; :func:`faults_of` has each."""

    def __init__(self, each: Sequence[BadInput]) -> None:
        super().__init__(each[0].what, remedy=each[0].remedy, field=each[0].field)
        self.each = tuple(each)


class GatheredFaults:
    """Gathers refusals, of each field the first::

    faults = GatheredFaults()
    with faults.gathered():
        name = checks.name(name, "name")
    faults.tell()
    """

    def __init__(self) -> None:
        self._found: dict[str, BadInput] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Go on behind what is refused in here. What is made in here is there for certain behind :meth:`tell`."""
        try:
            yield
        except BadInput as error:
            for each in faults_of(error):
                self._found.setdefault(each.field, each)

    def tell(self) -> None:
        """Raise what was gathered: one as it is, several as :class:`ManyFaults`."""
        found = list(self._found.values())
        if len(found) > 1:
            raise ManyFaults(found)
        if found:
            raise found[0]


def faults_of(error: BadInput) -> tuple[BadInput, ...]:
    """Each refusal that it tells."""
    return error.each if isinstance(error, ManyFaults) else (error,)
