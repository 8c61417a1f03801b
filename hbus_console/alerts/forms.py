"""What people type about channels, as the services take it."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from hbus_console.alerts.models import Channel


def channel_values(form: QueryDict, kind: str) -> dict[str, Any]:
    """The settings of a channel, without its kind."""
    values: dict[str, Any] = {"name": form.get("name", "").strip(), "enabled": "enabled" in form}
    if kind == Channel.Kind.WEBHOOK:
        return {**values, "url": form.get("url", "").strip()}
    addresses = form.get("recipients", "").replace(",", "\n").split("\n")
    return {**values, "recipients": tuple(it.strip() for it in addresses if it.strip())}
