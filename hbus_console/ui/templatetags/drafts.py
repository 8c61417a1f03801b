"""Asks for a setting on a page: ``{% setting each %}``."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.base import Template
from django.template.context import Context

register = template.Library()


#: The field's template of each widget; a feature's own is named in full.
_TEMPLATES = {name: f"components/{name}.html" for name in ("text", "area", "choice", "flag", "owner")} | {
    "whole": "components/text.html",
    "number": "components/text.html",
}
#: What keys a small screen offers for it.
_KEYS = {"whole": "numeric", "number": "decimal"}


@register.simple_tag(takes_context=True)
def setting(context: Context, each: Any) -> Any:
    """The field of a setting, with its value out of ``values`` and its refusal out of ``errors``."""
    assert isinstance(context.template, Template)
    found = context.template.engine.get_template(_TEMPLATES.get(each.widget, each.widget))
    shown = {
        "name": each.name,
        "label": each.label or context.get(f"{each.name}_label", ""),
        "words": getattr(each, "words", ""),
        "options": getattr(each, "options", ()),
        "wide": getattr(each, "wide", False),
        "value": each.shown(context["values"].get(each.name)),
        "error": (context.get("errors") or {}).get(each.name),
        "reads": each.reads(context["values"].get(each.name)),
        "help": each.help or context.get(f"{each.name}_help", ""),
        "placeholder": each.placeholder,
        "inputmode": _KEYS.get(each.widget, ""),
        "type": "",
        "required": each.required,
        "mono": False,
        "rows": getattr(each, "rows", 2),
    }
    with context.update(shown):
        return found.render(context)
