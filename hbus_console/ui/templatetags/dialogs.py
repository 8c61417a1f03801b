"""The dialog that asks before an act: what will happen, the fields it needs, why, and the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import template
from django.template.base import FilterExpression, NodeList, Parser, TextNode, Token, kwarg_re, token_kwargs
from django.template.context import Context
from django.template.engine import Engine
from django.template.exceptions import TemplateSyntaxError
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

OPTIONS = frozenset({"title", "verb", "tone", "back", "curl", "query", "send", "reason"})
REASON_OPTIONS = frozenset({"reason_id", "reason_name", "reason_label", "reason_value", "reason_placeholder"})
#: An option of this beginning is a hidden field: ``send_act="open"`` sends ``act``.
SENT = "send_"
#: What stands between the tags, in this order; all but the first begin with a tag of their name.
PARTS = ("text", "fields", "acts")
#: The beginning of the first field that a person fills in.
_FIRST_FIELD = re.compile(r"(<(?:select|textarea|input(?![^>]*\btype=\"hidden\"))\b)")
#: The beginning of any field.
_FIELD = re.compile(r"<(?:select|textarea|input)\b")
#: What the field that asks why is called when nobody says, by whether it is required.
_LABELS = {True: "Why (kept in the audit log)", False: "Why (optional, kept in the audit log)"}


@dataclass(frozen=True)
class Reason:
    """The field that asks why. It is required unless ``reason`` is ``"optional"``."""

    id: str
    name: str
    label: str
    required: bool
    value: str
    placeholder: str
    #: What was wrong with it.
    error: str = ""
    #: Across all columns of a form.
    wide: bool = False
    #: It takes the focus when what it stands in opens.
    first: bool = False


def _reason(sheet: str, options: Mapping[str, object], *, first: bool) -> Reason | None:
    wanted = options.get("reason", "required")
    if not wanted:
        return None
    required = wanted == "required"
    return Reason(
        id=str(options.get("reason_id") or f"{sheet}-why"),
        name=str(options.get("reason_name") or "reason"),
        label=str(options.get("reason_label") or _LABELS[required]),
        required=required,
        value=str(options.get("reason_value") or ""),
        placeholder=str(options.get("reason_placeholder") or ""),
        first=first,
    )


class SheetNode(template.Node):
    """Draws ``components/sheet.html``."""

    # Where Django looks for nodes inside this one, blocks for example.
    child_nodelists = PARTS

    def __init__(
        self, args: Sequence[FilterExpression], options: Mapping[str, FilterExpression], parts: Mapping[str, NodeList]
    ) -> None:
        self._args = args
        self._options = options
        self.text = parts["text"]
        self.fields = parts.get("fields", NodeList())
        self.acts = parts.get("acts", NodeList())

    def render(self, context: Context) -> SafeString:
        name, *route = (arg.resolve(context) for arg in self._args)
        options = {key: expression.resolve(context) for key, expression in self._options.items()}
        fields, focused = _FIRST_FIELD.subn(r"\1 autofocus", _drawn(self.fields, context), count=1)
        sheet = {
            "name": name,
            "title": options["title"],
            "action": _address(route, options.get("query")),
            "text": _drawn(self.text, context),
            "fields": mark_safe(fields),  # noqa: S308 - rendered by the template engine
            "acts": _drawn(self.acts, context),
            "sent": _sent(options),
            "reason": _reason(str(name), options, first=not focused),
            "verb": options.get("verb"),
            "tone": options.get("tone"),
            "back": options.get("back", "Cancel"),
            "curl": options.get("curl"),
        }
        drawn = Engine.get_default().get_template("components/sheet.html")
        with context.push(sheet=sheet):
            return drawn.render(context)


def _address(route: Sequence[Any], query: object) -> str:
    """Where the form goes; empty for the page's own address."""
    if not route:
        return ""
    return reverse(route[0], args=route[1:]) + (f"?{query}" if query else "")


def _sent(options: Mapping[str, Any]) -> dict[str, object]:
    """The hidden fields by name, without those that have nothing to say."""
    single = {key.removeprefix(SENT): value for key, value in options.items() if key.startswith(SENT)}
    return {name: value for name, value in {**(options.get("send") or {}), **single}.items() if value}


def _drawn(part: NodeList, context: Context) -> SafeString:
    return mark_safe(part.render(context).strip())  # noqa: S308 - rendered by the template engine


@register.inclusion_tag("components/reason.html")
def why(
    field_id: str,
    *,
    optional: bool = False,
    value: str = "",
    placeholder: str = "",
    error: str = "",
    wide: bool = False,
) -> dict[str, Reason]:
    """``{% why "f-reason" error=errors.reason %}``: the field of a form that asks why. A sheet has its own."""
    required = not optional
    return {"reason": Reason(field_id, "reason", _LABELS[required], required, value, placeholder, error, wide)}


@register.tag
def sheet(parser: Parser, token: Token) -> SheetNode:
    """``{% sheet "pause" "topics:pause" topic.name title="Pause" verb="Pause the topic" tone="danger" %}``.

    The first word is the id that ``popovertarget`` names; what follows is the form's address, as in ``{% url %}``, and
    without it the form goes to the page's own. What stands inside says what will happen; after ``{% fields %}`` come
    fields in front of the reason, after ``{% acts %}`` buttons in place of the one that ``verb`` and ``tone`` describe.

    ``reason`` is ``"required"``, ``"optional"`` or ``""`` for none; ``reason_id``, ``reason_name``, ``reason_label``,
    ``reason_value`` and ``reason_placeholder`` change its field. ``send_act="open"`` is a hidden field ``act``,
    ``send`` a mapping of such, and ``query`` stands behind the address. ``back`` is what the way back is called, and
    ``curl`` the same act as a command. The first field has the focus when the sheet opens.
    """
    bits = token.split_contents()[1:]
    args = []
    while bits and not ((found := kwarg_re.match(bits[0])) and found.group(1)):
        args.append(parser.compile_filter(bits.pop(0)))
    options = token_kwargs(bits, parser)
    unknown = [bit for bit in (*options, *bits) if bit not in OPTIONS | REASON_OPTIONS and not bit.startswith(SENT)]
    if not args or "title" not in options or unknown:
        raise TemplateSyntaxError(
            f"A sheet takes an id and a title, and knows no {', '.join(unknown) or 'other form'}."
        )
    parts = {}
    part = PARTS[0]
    while True:
        later = PARTS[PARTS.index(part) + 1 :]
        parts[part] = parser.parse((*later, "endsheet"))
        ended = parser.next_token().contents.split()[0]
        texts = parts["text"].get_nodes_by_type(TextNode)
        if any(_FIELD.search(node.s) for node in texts if isinstance(node, TextNode)):
            raise TemplateSyntaxError(
                f"A field in what a sheet says is not sent: write it behind {{% fields %}}, or as {SENT}NAME."
            )
        if ended == "endsheet":
            return SheetNode(args, options, parts)
        part = ended
