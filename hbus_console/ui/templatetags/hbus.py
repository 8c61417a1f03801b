"""Template tags and filters every page may use without loading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.template.base import NodeList, Parser, Token
from django.template.context import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from engine.core.subject import Subject
from hbus_console.command_needs import typed
from hbus_console.faults import FieldError
from hbus_console.registry import subjects
from hbus_console.ui import curl as curls
from hbus_console.ui import formats, icons, jsonview, menu, sparks
from hbus_console.ui.states import tone_of

register = template.Library()

#: Names of more characters may be cut where an owner stands in a narrow cell.
OWNER_CUT = 14

register.filter("num", formats.num)
register.filter("rate", formats.rate)
register.filter("ago", formats.ago)
register.filter("clock", formats.clock)
register.filter("exact", formats.exact)
register.filter("exact_text", formats.exact_text)
register.filter("duration", formats.duration)
register.filter("ms", lambda value: formats.duration(None if value is None else value * 1_000))
register.filter("seconds", lambda value: formats.duration(None if value is None else value * 1_000_000))
register.filter("size", formats.size)
register.filter("short_id", formats.short_id)
register.filter("breakable", formats.breakable)
register.filter("typed", typed)
register.filter("tone", lambda value: tone_of(str(value)))


@register.filter
def of(values: Mapping[str, Any], name: str) -> Any:
    """``{{ item.facets|of:facet }}``: the value of that name; empty when there is none."""
    return values.get(name, "")


@register.filter
def labelled(error: object, label: str) -> object:
    """``{{ error|labelled:label }}``: a refusal at its field, which it calls as the form does."""
    return error.labelled(label) if isinstance(error, FieldError) else error


@register.filter
def of_no_field(errors: Mapping[str, Any] | None, also: str = "") -> list[Any]:
    """``{{ errors|of_no_field:"kind" }}``: the refusals of none of a form's fields, and of the named ones."""
    return [error for field, error in (errors or {}).items() if not field or field in also.split()]


@register.filter
def hot(value: Any, tone: str = "bad") -> str:
    """The class of a number that is bad when it is not 0, for a table cell."""
    return f"hot-{tone}" if value else "zero"


@register.simple_tag
def icon(name: str, size: int = 16, label: str = "") -> SafeString:
    """``{% icon "outline/home" size=16 %}``; give it a ``label`` when it stands alone."""
    return icons.icon(str(name), size, str(label))


@register.simple_tag
def spark(
    values: Iterable[float | None], tone: str = "accent", width: int = sparks.WIDTH, height: int = sparks.HEIGHT
) -> SafeString:
    """``{% spark values "ok" %}``: a sparkline."""
    return sparks.spark(values or (), tone, width, height)


@register.simple_tag
def state(word: str, text: str = "", tone: str = "", of: str = "") -> SafeString:
    """``{% state "paused" %}``: a badge whose colour follows from the word; ``text`` replaces what it says.

    ``of`` names the feature whose state it is, for a word that means something else there.
    """
    colour = tone or tone_of(str(word), of)
    return format_html('<span class="badge {}">{}</span>', colour, text or str(word).replace("_", " "))


@register.simple_tag
def cut(text: Any, most: int = 40) -> SafeString:
    """``{% cut row.key 40 %}``: at most so many characters, cut in the middle; the whole stands in the title."""
    whole, short = str(text or ""), formats.cut(text, most)
    return format_html('<span title="{}">{}</span>', whole, short) if short != whole else format_html("{}", whole)


@register.simple_tag
def owner(team: Any) -> SafeString:
    """``{% owner topic.team %}``: initials and name, cut where there is no room; says so in red when there is none."""
    if not team:
        return format_html('<span class="owner none">{} no owner</span>', icons.icon("outline/user-off", 14))
    # A page has many of them, and most are short.
    whole = format_html(' title="{}"', team.name) if len(team.name) > OWNER_CUT else ""
    return format_html(
        '<span class="owner"{}><b aria-hidden="true">{}</b><span>{}</span></span>', whole, team.initials, team.name
    )


@register.simple_tag
def json_block(value: Any) -> SafeString:
    """``{% json_block payload %}``: highlighted JSON; masked values are chips."""
    return jsonview.highlight(value)


@register.simple_tag(takes_context=True)
def curl(
    context: Context, spec: curls.CurlRequest | Mapping[str, Any], text: str = "Copy as curl", small: bool = False
) -> SafeString:
    """``{% curl spec %}``: a button that copies the command; ``spec`` is a :class:`CurlRequest`, or its fields.

    Inside a form the command repeats what is typed there, in the fields that its body has too; never a password.
    """
    wanted = spec if isinstance(spec, curls.CurlRequest) else curls.CurlRequest(**dict(spec))
    request = context.get("request")
    base = request.build_absolute_uri("/") if isinstance(request, HttpRequest) else "/"
    return format_html(
        '<button type="button" class="button{}" data-copy="{}"{}>{} {}</button>',
        " small" if small else "",
        curls.command(wanted, base),
        format_html(' data-body="{}"', curls.written(wanted.body)) if isinstance(wanted.body, Mapping) else "",
        icons.icon("outline/copy", 14),
        text,
    )


@register.simple_tag
def copy(text: Any, label: str = "Copy") -> SafeString:
    """``{% copy message.id "Copy id" %}``: a small icon button that copies a text."""
    return format_html(
        '<button type="button" class="button quiet small" data-copy="{}" title="{}" aria-label="{}">{}</button>',
        str(text),
        label,
        label,
        icons.icon("outline/copy", 14),
    )


@register.simple_tag(takes_context=True)
def href(context: Context, name: str, *args: Any, **kwargs: Any) -> str:
    """``{% href "topics:detail" topic.name %}``: like ``{% url %}``, and keeps the page's time range."""
    query = getattr(context.get("range"), "query", "")
    return reverse(name, args=args, kwargs=kwargs) + (f"?{query}" if query else "")


@register.simple_tag(takes_context=True)
def subject_href(context: Context, subject: Subject) -> str:
    """``{% subject_href item.subject as page %}``: the page of a subject like ``href``; empty when it has none."""
    return _ranged(context, subjects.address(subject))


@register.simple_tag(takes_context=True)
def href_to(context: Context, kind: str, namespace: str, name: str = "", **more: str | None) -> str:
    """``{% href_to "message" row.topic row.message_id source=row.source %}``: like ``subject_href``, of a subject by
    its parts; ``more`` is what tells it from others of that name, where there is any."""
    address = _ranged(context, subjects.address_named(kind, namespace, name))
    said = urlencode({word: value for word, value in more.items() if value})
    return f"{address}{'&' if '?' in address else '?'}{said}" if address and said else address


def _ranged(context: Context, address: str) -> str:
    query = getattr(context.get("range"), "query", "")
    return f"{address}{'&' if '?' in address else '?'}{query}" if address and query else address


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """``{% query cursor=next %}``: this address's query with changes; an empty value removes its parameter."""
    request = context["request"]
    parameters = request.GET.copy()
    for name, value in changes.items():
        if value is None or value == "":
            parameters.pop(name, None)
        else:
            parameters[name] = str(value)
    encoded = parameters.urlencode()
    return f"?{encoded}" if encoded else request.path


class RailNode(template.Node):
    """Draws the menu; what stands between its tags (the page's block ``nav``) names the active entry."""

    def __init__(self, active: NodeList) -> None:
        self._active = active

    def render(self, context: Context) -> SafeString:
        request = context.get("request")
        if request is None:
            return mark_safe("")
        active = self._active.render(context).strip() or menu.guess(request)
        inside = cast("dict[str, Any]", context.flatten()) | {"sections": menu.sections(request, active)}
        return mark_safe(  # noqa: S308 - rendered by the template engine
            render_to_string("components/rail.html", inside)
        )


@register.tag
def rail(parser: Parser, token: Token) -> RailNode:
    """``{% rail %}{% block nav %}{% endblock %}{% endrail %}``."""
    active = parser.parse(("endrail",))
    parser.delete_first_token()
    return RailNode(active)


@register.simple_tag(takes_context=True)
def shortcuts(context: Context) -> list[tuple[str, str]]:
    """``{% shortcuts as keys %}``: see :func:`hbus_console.ui.menu.shortcuts`."""
    return menu.shortcuts(context["actor"])


@register.simple_tag
def searched(most: int = 0) -> str:
    """``{% searched 3 %}``: what the search box looks through, or the first of it: ``topics, messages``."""
    found = menu.searched()
    return ", ".join(found[:most]) if most else formats.listed(found)


@register.simple_tag(takes_context=True)
def section(context: Context) -> str:
    """The menu section this page belongs to: the root of its breadcrumb."""
    request = context.get("request")
    return menu.section_of(context.get("nav") or menu.guess(request)) if request is not None else ""
