"""The lake of this installation."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from engine.pipeline.lake.lake import Lake
from hbus_console.state import state_dir
from hbus_console.wiring.store import once


def lake() -> Lake:
    """In the folder of ``HBUS_LAKE``, or in the state folder. Nothing is made before something is put into it."""
    return once("lake", lambda: Lake(Path(settings.HBUS_LAKE) if settings.HBUS_LAKE else state_dir() / "lake"))
