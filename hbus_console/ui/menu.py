"""The menu: what the features bring, and of that only what the actor may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.http import HttpRequest
from django.urls import reverse

from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor
from hbus_console.database import AWAY
from hbus_console.parts import Parts, log_fault
from hbus_console.registry.declaration import LAST_SECTIONS, MenuEntry
from hbus_console.registry.loading import features, resolve
from hbus_console.registry.names import MENU_KEYS, SHORTCUTS
from hbus_console.ui import formats
from hbus_console.ui.timerange import time_range


@dataclass(frozen=True)
class MenuLine:
    """An entry as it is drawn. ``count`` stands beside it, hidden for 0; ``None`` where it counts nothing."""

    entry: MenuEntry
    href: str
    current: bool
    count: int | str | None

    @property
    def text(self) -> str:
        """The count as it is drawn."""
        return self.count if isinstance(self.count, str) else formats.num(self.count)


@cache
def entries() -> tuple[tuple[str, tuple[MenuEntry, ...]], ...]:
    """Every section with its entries, in the order in which they stand: the engines' in that of their features, then
    :data:`~hbus_console.registry.declaration.LAST_SECTIONS`.

    Raises ``ConfigurationError`` for two entries of one key or one shortcut.
    """
    found: dict[str, list[MenuEntry]] = {}
    SHORTCUTS.by_name(features())
    for entry in MENU_KEYS.by_name(features()).values():
        found.setdefault(entry.section, []).append(entry)
    titles = [title for title in found if title not in LAST_SECTIONS]
    titles += [title for title in LAST_SECTIONS if title in found]
    return tuple((title, tuple(sorted(found[title], key=lambda it: it.place))) for title in titles)


def shortcuts(who: Actor) -> list[tuple[str, str]]:
    """What follows the key g, and where it leads, for the list of keys: of the entries that ``who`` may open."""
    return [
        (entry.shortcut, entry.title)
        for _, group in entries()
        for entry in group
        if entry.shortcut and may_open(who, entry)
    ]


def searched() -> list[str]:
    """What the search box looks through: the entries of the features that find something, by their titles."""
    finding = {entry.key for feature in features() if feature.search for entry in feature.menu}
    return [entry.title.lower() for _, group in entries() for entry in group if entry.key in finding]


def may_open(who: Actor, entry: MenuEntry) -> bool:
    """Whether there is anything behind the entry that ``who`` may see."""
    return allows(who, entry.act, SOMEWHERE)


def sections(request: HttpRequest, active: str) -> list[tuple[str, list[MenuLine]]]:
    """The menu of this request; a section without entries is left out."""
    who = actor(request)
    drawn = [
        (title, [_line(request, who, entry, active) for entry in group if may_open(who, entry)])
        for title, group in entries()
    ]
    return [(title, lines) for title, lines in drawn if lines]


def guess(request: HttpRequest) -> str:
    """The first entry of the feature that answers this request, for pages that name none: an app's addresses bear its
    feature's name."""
    match = request.resolver_match
    if match is None:
        return ""
    return next((feature.menu[0].key for feature in features() if feature.menu and feature.name == match.app_name), "")


def section_of(key: str) -> str:
    """The title of the section that holds ``key``; empty when none does."""
    return next((title for title, group in entries() for entry in group if entry.key == key), "")


def _line(request: HttpRequest, who: Actor, entry: MenuEntry, active: str) -> MenuLine:
    address, kept = reverse(entry.url_name), time_range(request).query
    count = _count(who, entry) if entry.badge else None
    return MenuLine(entry, f"{address}?{kept}" if kept else address, entry.key == active, count)


def _count(who: Actor, entry: MenuEntry) -> int | str | None:
    """``None`` when it cannot be counted: the menu is on every page, and a page is worth more than a number in it."""
    parts = Parts(through=AWAY)
    count: int | str | None = parts.do(entry.key, lambda: resolve(entry.badge)(who))
    for fault in parts.faults:
        log_fault(fault)
    return count
