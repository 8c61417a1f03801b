"""The settings of a kind of thing, read from the fields of its draft."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hbus_console.access.acts import Act
from hbus_console.drafts.setting import Setting
from hbus_console.faults import GatheredFaults
from hbus_console.ui.forms import Form, text

#: A field of a draft that must be given.
NEEDED: Any = MISSING


@dataclass(frozen=True)
class DraftField:
    """A field of a draft: its type without marks, and its default or :data:`NEEDED`."""

    name: str
    kind: Any
    default: Any
    setting: Setting | None


class Settings:
    """The settings of the things that ``draft`` describes, in its order; changing one takes its act."""

    def __init__(self, draft: type) -> None:
        self.fields = _fields(draft)
        self.each = {one.name: one.setting for one in self.fields if one.setting is not None}

    def __getitem__(self, name: str) -> Setting:
        return self.each[name]

    @property
    def changeable(self) -> list[str]:
        """What can be changed once the thing is there."""
        return [name for name, setting in self.each.items() if not setting.fixed]

    @property
    def stored(self) -> list[str]:
        """What has a column: all but the owner, and what lies in tables of its own."""
        return [name for name, setting in self.each.items() if setting.stored]

    def marked(self, mark: type) -> list[str]:
        """What carries such a mark."""
        return [name for name, one in self.each.items() if any(isinstance(each, mark) for each in one.marks)]

    @property
    def labels(self) -> dict[str, str]:
        """What a form calls each."""
        return {name: setting.label for name, setting in self.each.items() if setting.label}

    def part(self, name: str) -> list[Setting]:
        """What that part of a page lists."""
        return [setting for setting in self.each.values() if setting.part == name]

    def act_of(self, name: str) -> Act:
        """What changing it takes."""
        return self.each[name].act

    def acts_of(self, names: Iterable[str]) -> list[Act]:
        """What changing all of them takes, by name."""
        return sorted({self.act_of(name) for name in names}, key=lambda act: act.name)

    def snapshot(self, row: Any) -> dict[str, Any]:
        """What a row has, as audit log and pages show it."""
        return {name: setting.of(row) for name, setting in self.each.items()}

    def differing(self, before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Of the changes, what is not so already. Lists are compared as columns hold them."""
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in changes.items()}
        return {name: value for name, value in given.items() if value != before[name]}

    def checked(self, values: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All that is stored, cleaned; raises ``BadInput`` telling each value that does not fit.

        What hangs on other settings is checked after these; ``beside`` them it may hang on what is none.
        """
        clean = self._clean(self.stored, values, beside or {})
        return {name: clean[name] for name in self.stored}

    def checked_changes(self, changes: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """What is stored of the changes, cleaned; what a row had ``before`` is taken as it is.

        For a thing whose settings hang on none but fixed ones: else a change could spoil what stays.
        """
        wanted = self.differing(before, changes)
        clean = self._clean([name for name in self.stored if name in wanted], wanted, before)
        return {name: clean[name] for name in self.stored if name in changes}

    def _clean(self, names: Collection[str], values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        clean = {name: value for name, value in known.items() if name not in names}
        faults, wrong = GatheredFaults(), set[str]()
        for name in sorted(names, key=lambda each: self.each[each].hangs_on_others):
            wrong.add(name)
            try:
                with faults.gathered():
                    clean[name] = self.each[name].checked(values[name], clean)
                    wrong.discard(name)
            except KeyError as error:
                # What hangs on a value that does not fit cannot be judged.
                if error.args[0] not in wrong:
                    raise
        faults.tell()
        return clean

    def columns(self, clean: Mapping[str, Any]) -> dict[str, Any]:
        """Checked values by the names of their columns."""
        return {self.each[name].stored_as: value for name, value in clean.items()}

    def typed(self, form: Form, names: Collection[str]) -> dict[str, Any]:
        """What a form says of the named settings."""
        asked = (self.each[name] for name in self.each if name in names)
        return {one.name: one.typed(form) for one in asked if not (one.rare and not text(form, one.name))}


def _fields(draft: type) -> list[DraftField]:
    hints = get_type_hints(draft, include_extras=True)
    found = []
    for one in fields(draft):
        hint = hints[one.name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        setting = next((mark for mark in marks if isinstance(mark, Setting)), None)
        if setting is not None:
            rest = tuple(mark for mark in marks if mark is not setting)
            setting = replace(setting, name=one.name, default=default, marks=rest)
        found.append(DraftField(one.name, kind, default, setting))
    return found
