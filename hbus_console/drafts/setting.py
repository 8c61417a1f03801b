"""One setting, by the kind of its values: how it is checked, typed into a form, shown, and told to the audit log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_typed
from hbus_console import checks
from hbus_console.access.acts import Act
from hbus_console.faults import Unfit
from hbus_console.ui import forms
from hbus_console.ui.control_characters import escaped, json_to_send
from hbus_console.ui.formats import in_larger_unit

#: Checked values by name, of the settings that were checked before.
Clean = Mapping[str, Any]


#: Words of a choice that half a column has no room for.
_LONG = 28


@dataclass(frozen=True, kw_only=True)
class Setting(ABC):
    """What is said of a setting of any kind. ``name`` and ``default`` are those of the draft's field."""

    #: What changing it takes. Each setting says it itself: one that nobody thought of must not be anybody's to change.
    act: Act
    name: str = ""
    default: Any = None
    label: str = ""
    help: str = ""
    placeholder: str = ""
    #: The part of a page that lists it; empty: the page has a place of its own for it, or none.
    part: str = ""
    #: Said when the thing is made, and never changed.
    fixed: bool = False
    #: Left to what it is by a form that does not name it, or leaves it empty.
    rare: bool = False
    #: A form must fill it in.
    required: bool = False
    #: ``None`` is a value too: there is none. Without this, ``None`` is filled in by ``unless_said``.
    may_be_none: bool = False
    #: What its column is called, when not as the setting.
    column: str = ""
    #: What it is when nobody says (``None``), from the settings it hangs on.
    unless_said: Callable[[Clean], Any] | None = None
    #: Whatever else the feature has written into the annotation.
    marks: tuple[object, ...] = ()

    #: How a page asks for it: the name of a field's template.
    widget: ClassVar[str] = "text"
    #: Whether it has a column of its own.
    stored: ClassVar[bool] = True

    @property
    def hangs_on_others(self) -> bool:
        """Whether it can only be checked once the others are."""
        return self.unless_said is not None

    @property
    def stored_as(self) -> str:
        """The name of its column."""
        return self.column or self.name

    def checked(self, value: Any, clean: Clean) -> Any:
        """The value, cleaned, as its column takes it; raises :class:`BadInput` naming the setting."""
        if value is None and self.unless_said is not None:
            return self.unless_said(clean)
        if value is None and self.may_be_none:
            return None
        return self.check(value, clean)

    @abstractmethod
    def check(self, value: Any, clean: Clean) -> Any: ...

    def of(self, row: Any) -> Any:
        """What a row has, as audit log and API show it."""
        return getattr(row, self.stored_as)

    def typed(self, form: forms.Form) -> Any:
        """What was typed into a form; whatever is wrong with it is left for :meth:`check` to refuse."""
        return forms.text(form, self.name)

    def shown(self, value: Any) -> Any:
        """A value, or what was typed, as a form shows it."""
        return value

    def reads(self, value: Any) -> str:
        """A value in a unit that is easier to read than its own; empty where it is easy as it stands."""
        return ""

    def answered(self, kind: Any) -> Any:
        """Of the draft's type, what an answer of the API gives."""
        return kind

    def answer(self, value: Any) -> Any:
        """A row's value, as an answer of the API gives it."""
        return value


@dataclass(frozen=True)
class Whole(Setting):
    """A whole number from ``least`` to ``most``, or within what ``bounds`` makes of the settings it hangs on."""

    least: int = 0
    most: int = 0
    unit: str = ""
    bounds: Callable[[Clean], tuple[int, int]] | None = field(default=None, kw_only=True)

    widget: ClassVar[str] = "whole"

    @property
    def hangs_on_others(self) -> bool:
        return self.bounds is not None or super().hangs_on_others

    def check(self, value: Any, clean: Clean) -> int:
        least, most = self.bounds(clean) if self.bounds else (self.least, self.most)
        return checks.whole(value, self.name, least=least, most=most, unit=self.unit)

    def reads(self, value: Any) -> str:
        return in_larger_unit(value, self.unit)

    def typed(self, form: forms.Form) -> Any:
        return forms.whole(form, self.name)


@dataclass(frozen=True)
class Number(Setting):
    """A number from ``least`` on, or from what ``bound`` makes of the settings it hangs on."""

    least: float = 0.0
    bound: Callable[[Clean], float] | None = field(default=None, kw_only=True)

    widget: ClassVar[str] = "number"

    @property
    def hangs_on_others(self) -> bool:
        return self.bound is not None or super().hangs_on_others

    def check(self, value: Any, clean: Clean) -> float:
        return checks.number(value, self.name, least=self.bound(clean) if self.bound else self.least)

    def typed(self, form: forms.Form) -> Any:
        return None if self.may_be_none and not forms.text(form, self.name) else forms.number(form, self.name)

    def shown(self, value: Any) -> Any:
        """Whole numbers without their ``.0``."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class Flag(Setting):
    """Yes or no; ``words`` stand beside the box to tick, the label above it."""

    words: str = ""

    widget: ClassVar[str] = "flag"

    def check(self, value: Any, clean: Clean) -> bool:
        return checks.flag(value, self.name)

    def typed(self, form: forms.Form) -> bool:
        return self.name in form


@dataclass(frozen=True)
class Choice(Setting):
    """One of some words, each with what it means."""

    words: Mapping[str, str] = field(default_factory=dict)

    widget: ClassVar[str] = "choice"

    def check(self, value: Any, clean: Clean) -> str:
        return checks.choice(value, self.name, self.words)

    @property
    def options(self) -> list[tuple[str, str]]:
        """The words with their meanings, as a page offers them."""
        return list(self.words.items())

    @property
    def wide(self) -> bool:
        """Whether half a form cuts what it offers."""
        return any(len(f"{word}: {meaning}") > _LONG for word, meaning in self.options)


@dataclass(frozen=True)
class Text(Setting):
    """Text of up to ``most`` characters."""

    most: int = 0

    lines: ClassVar[bool] = False

    def check(self, value: Any, clean: Clean) -> str:
        return checks.text(value, self.name, most=self.most, required=self.required, lines=self.lines)

    def typed(self, form: forms.Form) -> str:
        return forms.lines(form, self.name)


@dataclass(frozen=True)
class Lines(Text):
    """Text of several lines, of which a form shows ``rows``."""

    rows: int = 2

    lines: ClassVar[bool] = True
    widget: ClassVar[str] = "area"


@dataclass(frozen=True)
class JsonObject(Setting):
    """A JSON object of up to ``most`` bytes; ``example`` is the remedy for what is none.

    Where parts of it may be hidden from whoever writes the rest, up to ``kept`` bytes are: then :meth:`measure` asks
    what somebody wrote, for a refusal by the length of the whole would tell that of what is hidden.
    """

    most: int = 10_000
    example: str = field(default='For example {"hotel": "HB-1"}.', kw_only=True)
    kept: int = field(default=0, kw_only=True)

    widget: ClassVar[str] = "area"
    rows: ClassVar[int] = 4

    def check(self, value: Any, clean: Clean) -> dict[str, Any]:
        # In a text nothing stands for what is hidden.
        most = self.most if isinstance(value, str) else self.kept or self.most
        if isinstance(value, str):
            value = self._read(value)
        if not isinstance(value, Mapping):
            raise Unfit(self.name, "is no JSON object.", remedy=self.example)
        checks.storable(value, self.name)
        checked = dict(value)
        self._measure(checked, most)
        return checked

    def measure(self, written: Mapping[str, Any]) -> int:
        """How many bytes somebody wrote; raises :class:`BadInput` for more than ``most``."""
        checks.storable(written, self.name)
        return self._measure(written, self.most)

    def _measure(self, value: Mapping[str, Any], most: int) -> int:
        size = len(msgspec.json.encode(value))
        if size > most:
            raise Unfit(self.name, f"is larger than {most:,} bytes.", remedy="Shorten it.")
        return size

    def typed(self, form: forms.Form) -> Any:
        typed = forms.lines(form, self.name)
        return typed if typed.strip() else self.empty

    @property
    def empty(self) -> Any:
        """What an empty field means."""
        return None if self.may_be_none else {}

    def shown(self, value: Any) -> str:
        if isinstance(value, str):
            return escaped(value)
        return json_to_send(value) if value else ""

    def _read(self, text: str) -> Any:
        try:
            return read_typed(text)
        except NotJson as error:
            raise Unfit(self.name, f"cannot be read as JSON: {words_of(error)}.", remedy=self.example) from error


@dataclass(frozen=True)
class Seconds(Setting):
    """A list of up to ``most`` numbers of seconds; ``example`` is the remedy for what is none."""

    most: int = 20
    example: str = field(default="For example 1, 5, 30.", kw_only=True)

    def check(self, value: Any, clean: Clean) -> list[float]:
        if not isinstance(value, (list, tuple)) or len(value) > self.most:
            raise Unfit(self.name, f"is no list of up to {self.most} seconds.", remedy=self.example)
        for each in value:
            if isinstance(each, bool) or not isinstance(each, (int, float)):
                raise self._no_number(repr(each))
        return [float(each) for each in value]

    def typed(self, form: forms.Form) -> list[float]:
        return [self._number(part) for part in forms.text(form, self.name).replace(";", ",").split(",")]

    def shown(self, value: Any) -> str:
        return value if isinstance(value, str) else ", ".join(f"{each:g}" for each in value)

    def _number(self, part: str) -> float:
        try:
            return float(part)
        except ValueError:
            raise self._no_number(repr(part.strip())) from None

    def _no_number(self, said: str) -> BadInput:
        return BadInput(f"{said} is no number of seconds.", remedy=self.example, field=self.name)


@dataclass(frozen=True)
class Owner(Setting):
    """The team that answers for the thing, by its name; it is looked up where the thing is written."""

    widget: ClassVar[str] = "owner"
    stored: ClassVar[bool] = False

    def check(self, value: Any, clean: Clean) -> Any:
        return value

    def of(self, row: Any) -> str:
        return row.team.name if row.team else ""

    def answered(self, kind: Any) -> Any:
        return kind | None

    def answer(self, value: Any) -> Any:
        """Nobody is null."""
        return value or None
