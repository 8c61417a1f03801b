"""Addresses of pages, for the ``addresses.py`` of the features."""

from __future__ import annotations

from django.urls import NoReverseMatch, reverse


def page(view: str, /, *args: str) -> str:
    """The address of a page; empty for a name that does not fit it any more, such as a deleted thing's."""
    try:
        return reverse(view, args=args)
    except NoReverseMatch:
        return ""
