"""Tabler icons as inline SVG, each built once per process."""

from __future__ import annotations

from functools import lru_cache

from django.utils.safestring import SafeString, mark_safe
from tablericons.templatetags.tablericons import icon as tabler


@lru_cache(maxsize=512)
def icon(name: str, size: int = 16, label: str = "") -> SafeString:
    """The icon ``style/name`` (e.g. ``outline/home``). Hidden from screen readers unless it has a ``label``."""
    attributes = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return mark_safe(tabler(name, size=size, stroke_width=1.6, **attributes))  # noqa: S308 - our own package's SVG
