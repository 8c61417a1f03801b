"""What people type about rules and channels, as the services take it. What is no number stays text: they refuse it."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from hbus_console.alerts.models import Channel, Rule
from hbus_console.alerts.services import RuleDraft
from hbus_console.alerts.services.rules import snapshot

_WHOLE = ("window_s", "for_s", "clear_s")


def rule_values(form: QueryDict, kind: str) -> dict[str, Any]:
    """The settings of a rule, as a draft names them, without its kind."""
    values: dict[str, Any] = {
        name: form.get(name, "").strip() for name in ("name", "topics", "group", "owner", "severity")
    }
    values["advice"] = form.get("advice", "").replace("\r\n", "\n").strip()
    values["topics"] = values["topics"] or "*"
    values["enabled"] = "enabled" in form
    values["channels"] = tuple(form.getlist("channels"))
    values["threshold"] = _number(form.get("threshold", "").strip())
    below = form.get("clear_below", "").strip()
    values["clear_below"] = _number(below) if below else None
    for name in _WHOLE:
        text = form.get(name, "").strip()
        if text or name != "window_s":
            values[name] = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text
    return values


def shown_rule(row: Rule) -> dict[str, Any]:
    """A stored rule, as its form shows it."""
    return snapshot(row)


def shown_draft(draft: RuleDraft) -> dict[str, Any]:
    """A fresh rule, likewise."""
    return {name: getattr(draft, name) for name in draft.__dataclass_fields__}


def channel_values(form: QueryDict, kind: str) -> dict[str, Any]:
    """The settings of a channel, without its kind."""
    values: dict[str, Any] = {"name": form.get("name", "").strip(), "enabled": "enabled" in form}
    if kind == Channel.Kind.WEBHOOK:
        return {**values, "url": form.get("url", "").strip()}
    addresses = form.get("recipients", "").replace(",", "\n").split("\n")
    return {**values, "recipients": tuple(it.strip() for it in addresses if it.strip())}


def _number(text: str) -> Any:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
