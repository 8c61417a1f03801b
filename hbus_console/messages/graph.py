"""Where a message came from and what it caused, as a small picture: three columns, an arrow for each cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from hbus_console.messages.addresses import page_of
from hbus_console.messages.message_trace import MOST_EFFECTS, Life
from hbus_console.messages.models import LedgerMessage
from hbus_console.messages.timeline import who
from hbus_console.ui.formats import short_id
from hbus_console.ui.text_width import fitted

WIDTH = 372
_BOX, _HEIGHT, _GAP = 104, 34, 30
_ROW = 46
#: Where the text begins in a box, and what is left for it.
_INSET = 9
_ROOM = _BOX - 2 * _INSET + 4
#: Sizes of the types, as the style sheet has them.
_SIZE, _MONO_SIZE = 11, 10.5
#: Effects drawn; the picture says how many more there are.
_MOST = 5


@dataclass(frozen=True)
class Box:
    """One message (or the request before all of them)."""

    role: str
    #: In full; what there is no room for is cut out of its middle.
    what: str
    tone: str = ""
    href: str = ""
    mono: bool = False


def before(life: Life) -> Box | None:
    """What caused it: a message, or the request whose correlation id it carries; ``None`` when nothing is known."""
    replay = life.envelope.hbusreplay if life.envelope is not None else ""
    causation = life.entry.causation_id if life.entry else ""
    if causation:
        role = {"redrive": "redriven from", "replay": "replayed from"}.get(replay, "caused by")
        href = page_of(*life.cause.identity) if life.cause is not None else ""
        return Box(role, causation, "act" if replay else "", href, mono=True)
    if life.correlation_id:
        href = f"{reverse('messages:search')}?correlation={life.correlation_id}"
        return Box("request", life.correlation_id, href=href, mono=True)
    return None


def after(life: Life) -> list[Box]:
    """What it caused, redriven copies last."""
    copies = {letter.redriven_as for letter in life.letters if letter.redriven_as}
    drawn = {(life.topic_name, copy, life.source) for copy in copies}
    effects = [effect for effect in life.effects if effect.identity not in drawn]
    boxes = [_effect(effect) for effect in effects[:_MOST]]
    if len(effects) > _MOST:
        # What is read of them ends somewhere, and so does what can be counted.
        others = f"{len(effects) - _MOST} others" if len(life.effects) <= MOST_EFFECTS else "many others"
        boxes.append(Box("and more", others, href=_same_correlation(life)))
    boxes += [Box("redriven as", each[1], "act", page_of(*each), mono=True) for each in sorted(drawn)]
    return boxes


def draw(life: Life) -> SafeString:
    """The picture of at least this message itself."""
    cause, effects = before(life), after(life)
    rows = max(1, len(effects))
    middle = (rows - 1) * _ROW / 2 if rows <= 2 else 0
    this = Box("this message", life.message_id, "self", mono=True)
    here = _BOX + _GAP if cause else 0
    there = here + _BOX + _GAP
    parts = [_box(this, here, middle)]
    if cause:
        parts += [_edge((_BOX, middle), (here, middle)), _box(cause, 0, middle)]
    for number, effect in enumerate(effects):
        parts.append(_edge((here + _BOX, middle), (there, number * _ROW), dashed=effect.tone == "act"))
        parts.append(_box(effect, there, number * _ROW))
    return format_html(
        '<svg class="graph" viewBox="-1 -1 {w} {h}" role="group" aria-label="{label}">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>{parts}</svg>',
        w=WIDTH + 2,
        h=(rows - 1) * _ROW + _HEIGHT + 2,
        label=_spoken(cause, effects),
        parts=format_html_join("", "{}", ((part,) for part in parts)),
    )


def _effect(effect: LedgerMessage) -> Box:
    return Box(f"by {who(effect.source)}", effect.type, href=page_of(*effect.identity))


def _same_correlation(life: Life) -> str:
    return f"{reverse('messages:search')}?correlation={life.correlation_id}" if life.correlation_id else ""


def _box(box: Box, x: float, y: float) -> SafeString:
    left = x + _INSET
    inner = format_html(
        '<g class="{}"><title>{} {}</title><rect x="{}" y="{}" width="{}" height="{}" rx="5"/>{}{}</g>',
        box.tone or "plain",
        box.role,
        box.what,
        x,
        y,
        _BOX,
        _HEIGHT,
        format_html('<text class="role" x="{}" y="{}">{}</text>', left, y + 14, fitted(box.role, _ROOM, _SIZE)),
        format_html(
            '<text class="what{}" x="{}" y="{}">{}</text>', " mono" if box.mono else "", left, y + 27, _fitted(box)
        ),
    )
    return format_html('<a href="{}">{}</a>', box.href, inner) if box.href else inner


def _edge(start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False) -> SafeString:
    (x1, y1), (x2, y2) = start, end
    y1, y2, bend = y1 + _HEIGHT / 2, y2 + _HEIGHT / 2, (x1 + x2) / 2
    path = f"M{x1} {y1}H{x2 - 2}" if y1 == y2 else f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2 - 2} {y2}"
    return format_html('<path class="edge{}" d="{}" marker-end="url(#arrow)"/>', " dashed" if dashed else "", path)


def _fitted(box: Box) -> str:
    if box.mono:
        return fitted(short_id(box.what), _ROOM, _MONO_SIZE, mono=True)
    return fitted(box.what, _ROOM, _SIZE)


def _spoken(cause: Box | None, effects: Sequence[Box]) -> str:
    came = _said(cause) if cause else "nothing is known before it"
    led = ", ".join(map(_said, effects)) or "it caused nothing"
    return f"{came}; {led}"


def _said(box: Box) -> str:
    return f"{box.role} {short_id(box.what) if box.mono else box.what}"
