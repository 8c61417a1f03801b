"""Handlers that cannot be loaded."""

from __future__ import annotations

raise RuntimeError("no handler today")
