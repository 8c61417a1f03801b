"""Query parameters: what an endpoint declares in the OpenAPI document is what it takes, and nothing else.

A parameter that nobody reads, or a value that nobody understands, would be an answer to another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from engine.core.errors import BadInput
from engine.core.numbers import whole

#: How a switch is given.
SWITCH = {"1": True, "true": True, "0": False, "false": False}
#: A number of things on a page.
PAGE_SIZE = {"type": "integer", "minimum": 1, "maximum": 500}


def check(query: QueryDict, declared: Iterable[OpenApiParameter]) -> None:
    """Raises ``BadInput`` for what is unknown, given twice, missing, or not of the declared type, enum or bounds."""
    known = {each.name: each for each in declared if each.location == OpenApiParameter.QUERY}
    for name, values in query.lists():
        if name not in known:
            raise BadInput(
                f"There is no parameter {name[:40]!r} here.",
                remedy=f"Known here: {', '.join(sorted(known))}." if known else "None is known here.",
                field=name[:40],
            )
        if len(values) > 1:
            raise BadInput(f"{name} is given {len(values)} times.", remedy="Give it once.", field=name)
        _check(values[0], known[name])
    for name, each in known.items():
        if each.required and not query.get(name):
            raise BadInput(f"{name} is needed.", remedy="See /api/v1/docs/.", field=name)


def switch(query: QueryDict, name: str) -> bool:
    """A declared switch; off when left out."""
    return SWITCH.get(query.get(name, "0"), False)


def declared_by(view: Any, handler: Callable[..., Any]) -> list[OpenApiParameter]:
    """What ``extend_schema`` was told of that method of a view."""
    kind = getattr(handler, "kwargs", {}).get("schema")
    if kind is None:
        return []
    schema = kind()
    schema.view, schema.method = view, view.request.method
    return [each for each in schema.get_override_parameters() if isinstance(each, OpenApiParameter)]


def _check(value: str, declared: OpenApiParameter) -> None:
    name = declared.name
    if "\x00" in value:
        raise BadInput(f"{name} holds a NUL character.", remedy="Leave it out.", field=name)
    if declared.enum is not None and value not in map(str, declared.enum):
        raise BadInput(
            f"{name} is not {value[:40]!r}.", remedy=f"Use one of {', '.join(map(str, declared.enum))}.", field=name
        )
    if declared.type is OpenApiTypes.BOOL and value not in SWITCH:
        raise BadInput(f"{name} is not {value[:40]!r}.", remedy="Use true or false.", field=name)
    bounds = declared.type if isinstance(declared.type, dict) else {}
    if declared.type is OpenApiTypes.INT or bounds.get("type") == "integer":
        _check_number(name, whole(value), bounds)


def _check_number(name: str, number: int | None, bounds: dict[str, Any]) -> None:
    if number is None:
        raise BadInput(f"{name} is not a whole number.", remedy="Give one.", field=name)
    least, most = bounds.get("minimum", number), bounds.get("maximum", number)
    if not least <= number <= most:
        within = f"from {least:,} to {most:,}" if "maximum" in bounds else f"{least:,} or more"
        raise BadInput(f"{name} is not {within}.", remedy=f"{number:,} was given.", field=name)
