"""Tabler icons as inline SVG, each built once per process."""

from __future__ import annotations

import re
from functools import lru_cache

from django.utils.safestring import SafeString, mark_safe
from tablericons.templatetags.tablericons import icon as tabler

#: How an outline is painted is said once, in the class ``i``: a page has dozens of icons.
_PAINT = re.compile(r' (?:fill="none"|stroke="currentColor"|stroke-(?:width|linecap|linejoin)="[^"]*")')
_GAPS = re.compile(r"(?<=>)\s+(?=<)|\s+(?=/>)")


@lru_cache(maxsize=512)
def icon(name: str, size: int = 16, label: str = "") -> SafeString:
    """The icon ``style/name`` (e.g. ``outline/home``). Hidden from screen readers unless it has a ``label``."""
    attributes = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    drawn = _PAINT.sub("", tabler(name, size=size, **attributes))
    return mark_safe(_GAPS.sub("", drawn).replace("<svg ", '<svg class="i" ', 1))  # noqa: S308 - a package's own SVG
