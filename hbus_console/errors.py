"""Refusals that any app's services may raise; the API, the pages and the CLI each know how to say them."""

from __future__ import annotations

from engine.core.errors import BadInput


class NotThere(BadInput):
    """The thing asked for does not exist, or lies outside what the caller may see."""


class Conflict(BadInput):
    """The request is fine, but what it is about has moved on."""
