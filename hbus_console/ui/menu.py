"""The menu: what exists, and of that only what the actor may use."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from hbus_console.access.acts import VIEW, Act
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.accounts.feature import TOKEN_OWN
from hbus_console.accounts.middleware import actor
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.cluster.feature import CLUSTER_VIEW
from hbus_console.ui.timerange import time_range


@dataclass(frozen=True)
class Entry:
    """One line of the menu. ``key`` is what pages name as their ``nav``; ``shortcut`` follows the key g."""

    key: str
    title: str
    icon: str
    url_name: str
    action: Act
    shortcut: str
    app: str


SECTIONS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Bus",
        (
            Entry("overview", "Overview", "outline/home", "overview:overview", VIEW, "o", "ui"),
            Entry("topics", "Topics", "outline/align-justified", "topics:list", VIEW, "t", "topics"),
            Entry("subscriptions", "Subscriptions", "outline/git-fork", "subscriptions:list", VIEW, "s", ""),
            Entry("messages", "Messages", "outline/message", "messages:search", VIEW, "m", "ledger"),
            Entry(
                "dead-letters",
                "Dead letters",
                "outline/alert-triangle",
                "deadletters:list",
                VIEW,
                "d",
                "deadletters",
            ),
        ),
    ),
    (
        "Governance",
        (
            Entry("audit", "Audit log", "outline/file-text", "audit:list", AUDIT_READ, "a", "audit"),
            Entry("operations", "Operations", "outline/list-check", "operations:list", VIEW, "p", "operations"),
            Entry("alerts", "Alerts", "outline/bell", "alerts:list", VIEW, "l", "alerts"),
            Entry("access", "Access", "outline/lock", "accounts:access", TOKEN_OWN, "u", "accounts"),
        ),
    ),
    (
        "System",
        (Entry("cluster", "Cluster", "outline/layout-grid", "cluster:overview", CLUSTER_VIEW, "c", "cluster"),),
    ),
)


@dataclass(frozen=True)
class Line:
    """An entry as it is drawn."""

    entry: Entry
    href: str
    current: bool


def may_open(who: Actor, entry: Entry) -> bool:
    """Whether there is anything behind the entry that ``who`` may see."""
    return allows(who, entry.action, SOMEWHERE)


def sections(request: HttpRequest, active: str) -> list[tuple[str, list[Line]]]:
    """The menu of this request; a section without entries is left out."""
    who = actor(request)
    kept = time_range(request).query
    drawn = []
    for title, entries in SECTIONS:
        lines = []
        for entry in entries:
            if not may_open(who, entry):
                continue
            address = reverse(entry.url_name)
            lines.append(Line(entry, f"{address}?{kept}" if kept else address, entry.key == active))
        if lines:
            drawn.append((title, lines))
    return drawn


def guess(request: HttpRequest) -> str:
    """The entry of the app that answers this request, for pages that name none."""
    match = request.resolver_match
    if match is None:
        return ""
    if match.app_name == "topics" and "subscription" in (match.url_name or ""):
        return "subscriptions"
    if match.app_name == "ui" and match.url_name != "overview":
        return ""
    return next((entry.key for _, entries in SECTIONS for entry in entries if entry.app == match.app_name), "")


def section_of(key: str) -> str:
    """The title of the section that holds ``key``; empty when none does."""
    return next((title for title, entries in SECTIONS for entry in entries if entry.key == key), "")
