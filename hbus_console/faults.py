"""What is wrong with what somebody sent: of one field by the name that it has where it is told, and all of it at once,
for who mends one field does not learn of the next by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.core.errors import BadInput, HbusError


class Unfit(BadInput):
    """A value that does not fit its field. ``says`` is the sentence without the field's name, that it begins with.

    Programs know a field by its name, people by the label that a form has for it: :meth:`labelled` says the same to
    them.
    """

    def __init__(self, field: str, says: str, *, remedy: str) -> None:
        super().__init__(f"{_spoken(field)} {says}", remedy=remedy, field=field)
        self._says = says

    def labelled(self, label: str) -> str:
        # A label that goes on from the one before it begins with dots, and what is in brackets explains it.
        name = label.removeprefix("…").partition(" (")[0].strip()
        return f"“{name[:1].upper()}{name[1:]}” {self._says} {self.remedy}"


def _spoken(field: str) -> str:
    """A field's name as a person says it; units are said elsewhere."""
    return field.removesuffix("_s").replace("_", " ").capitalize()


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


class FieldError(str):
    """What a refusal says to a page, by the field's name until it is :meth:`labelled`."""

    def __new__(cls, refusal: HbusError) -> FieldError:
        made = super().__new__(cls, refusal)
        made._refusal = refusal
        return made

    _refusal: HbusError

    def labelled(self, label: str) -> str:
        """The same by the label that a form has for the field, where it is the value that does not fit."""
        return self._refusal.labelled(label) if label and isinstance(self._refusal, Unfit) else self


def faults_of(error: BadInput) -> tuple[BadInput, ...]:
    """Each refusal that it tells."""
    return error.each if isinstance(error, ManyFaults) else (error,)
