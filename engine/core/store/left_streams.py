"""Streams that may outlive what they belong to, such as the dead letters of a group: they end with their last entry."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from engine.core.scripts import load_scripts
from engine.core.store.link import Link

_FORGET = load_scripts(files("engine.core.store") / "lua")["forget_entries"]


def forget_entries(link: Link, stream: str, owner: str, ids: Sequence[str]) -> int:
    """Drop these entries; how many were there. ``owner`` is a key beside the stream that is there as long as what the
    stream belongs to: without it the stream goes with its last entry. Raises as :meth:`Link.run`."""
    return int(link.run(_FORGET, (stream, owner), ids))
