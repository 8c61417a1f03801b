"""The Lua scripts: one file each under ``lua/``, with what they share put in front."""

from __future__ import annotations

from pathlib import Path

from engine.core.scripts import Script

_FOLDER = Path(__file__).parent / "lua"
_COMMON = (_FOLDER / "common.lua").read_text(encoding="utf-8") + "\n"


def _script(name: str) -> Script:
    return Script(_FOLDER / f"{name}.lua", _COMMON)


PUBLISH = _script("publish")
#: Needs none of what the others share, and is by far the most frequent.
APPEND = Script(_FOLDER / "append.lua")
RECEIVE = _script("receive")
SETTLE = _script("settle")
EXTEND = _script("extend")
PLACE_GROUP = _script("place_group")
INSPECT_GROUP = _script("inspect_group")
PAUSE_GROUP = _script("pause_group")
WALK = _script("walk")
TRIM = _script("trim")
SEATS = _script("seats")
UNPARK = _script("unpark")
CONSUMER_NAMES = _script("consumer_names")
