"""Bodies and answers of the API, made from the settings of a draft."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, Union, get_args

import msgspec
from msgspec import UNSET, UnsetType

from hbus_console.api.bodies import Body, ReasonBody
from hbus_console.drafts.settings import NEEDED, DraftField, Settings

#: A field of an answer: its name and its type.
Field = tuple[str, Any]


class ChangeBody(ReasonBody):
    """What every change may say: why."""

    def changes(self) -> dict[str, Any]:
        """The settings that were sent."""
        return self.given("reason", "revision")


class RevisedBody(ChangeBody):
    """What the change of a thing with revisions may say: also which it was made from, against a change meanwhile."""

    revision: int | None = None


class NewBody(ReasonBody):
    """What everything new may say."""

    def settings(self) -> dict[str, Any]:
        """The draft's fields that the body has."""
        return self.given("reason")


def new_body(settings: Settings, name: str, doc: str, *, leave: Collection[str] = ()) -> type[NewBody]:
    """What makes a thing: its draft, without what the address says (``leave``), and a reason."""
    fields = [_needed_or_not(one) for one in settings.fields if one.name not in leave]
    body = _struct(name, doc, fields, NewBody)
    assert issubclass(body, NewBody)
    return body


def change_body(settings: Settings, name: str, doc: str) -> type[RevisedBody]:
    """What changes a thing: any of its settings; those left out stay as they are."""
    body = _struct(name, doc, _changes(settings), RevisedBody)
    assert issubclass(body, RevisedBody)
    return body


def change_body_without_revision(settings: Settings, name: str, doc: str) -> type[ChangeBody]:
    """Likewise, of a thing that has no revisions."""
    body = _struct(name, doc, _changes(settings), ChangeBody)
    assert issubclass(body, ChangeBody)
    return body


def answer(
    settings: Settings,
    name: str,
    doc: str,
    *,
    first: Collection[Field],
    last: Collection[Field | tuple[str, Any, Any]],
    after: Mapping[str, Collection[Field]] | None = None,
) -> type[msgspec.Struct]:
    """What an endpoint gives of a thing: its settings between what comes ``first`` and ``last``, or ``after`` one."""
    middle: list[Field] = []
    for one in settings.fields:
        if one.setting is not None:
            middle += [(one.name, one.setting.answered(_said_of(one))), *(after or {}).get(one.name, ())]
    return msgspec.defstruct(name, [*first, *middle, *last], namespace={"__doc__": doc}, module=__name__)


def answered(settings: Settings, row: Any) -> dict[str, Any]:
    """The settings of a row as the answer gives them."""
    return {name: settings[name].answer(value) for name, value in settings.snapshot(row).items()}


def said(kind: Any) -> Any:
    """A draft's type once a value is there: without ``None``."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    return Union[tuple(parts)] if NoneType in get_args(kind) else kind  # noqa: UP007 - made at run time


def _said_of(one: DraftField) -> Any:
    return one.kind if one.setting is not None and one.setting.may_be_none else said(one.kind)


def _changes(settings: Settings) -> list[Any]:
    kinds = {one.name: _said_of(one) for one in settings.fields}
    return [(each, kinds[each] | UnsetType, UNSET) for each in settings.changeable]


def _needed_or_not(one: DraftField) -> Any:
    return (one.name, one.kind) if one.default is NEEDED else (one.name, one.kind, one.default)


def _struct(name: str, doc: str, fields: list[Any], base: type[Body]) -> type[msgspec.Struct]:
    namespace = {"__doc__": doc}
    return msgspec.defstruct(name, fields, bases=(base,), namespace=namespace, module=__name__, kw_only=True)
