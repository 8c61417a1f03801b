"""JSON as highlighted HTML."""

from __future__ import annotations

import json
import re
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from hbus_console.ui.control_characters import json_to_send

#: A masked value is a text of this form (see ``topics.masking``); it is shown as a chip.
_MASKED = re.compile(r"^masked(?: · [\w-]+)?$")
_INDENT = "  "
#: Lists of plain values up to so many characters stay on one line.
_ONE_LINE = 72


def highlight(value: Any) -> SafeString:
    """``value`` as indented JSON inside ``<pre class="json">``; every piece of it is escaped."""
    return mark_safe(f'<pre class="json" tabindex="0">{_render(value, 0)}</pre>')  # noqa: S308 - escaped piece by piece


def _render(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        return _render_object(value, depth)
    if isinstance(value, list | tuple):
        return _render_list(list(value), depth)
    return _render_plain(value)


def _render_object(value: dict[Any, Any], depth: int) -> str:
    if not value:
        return "{}"
    inner = _INDENT * (depth + 1)
    lines = [
        f'{inner}<span class="k">{escape(json_to_send(str(key)))}</span>: {_render(item, depth + 1)}'
        for key, item in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{_INDENT * depth}}}"


def _render_list(value: list[Any], depth: int) -> str:
    if not value:
        return "[]"
    if (
        not any(isinstance(item, dict | list | tuple) for item in value)
        and len(json.dumps(value, default=str)) <= _ONE_LINE
    ):
        return "[" + ", ".join(_render_plain(item) for item in value) + "]"
    inner = _INDENT * (depth + 1)
    return "[\n" + ",\n".join(inner + _render(item, depth + 1) for item in value) + f"\n{_INDENT * depth}]"


def _render_plain(value: Any) -> str:
    if isinstance(value, str) and _MASKED.match(value):
        return f'<span class="masked">{escape(value)}</span>'
    kind = "w" if value is None or isinstance(value, bool) else "n" if isinstance(value, int | float) else "s"
    return f'<span class="{kind}">{escape(json_to_send(value, default=str))}</span>'
