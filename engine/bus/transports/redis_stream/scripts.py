"""The Lua scripts: one file each under ``lua/``, with what they share put in front."""

from __future__ import annotations

from importlib.resources import files

from engine.core.scripts import Script, load_scripts

_FOLDER = files("engine.bus.transports.redis_stream") / "lua"
_SCRIPTS = load_scripts(_FOLDER)

PUBLISH = _SCRIPTS["publish"]
#: Needs none of what the others share, and is by far the most frequent.
APPEND = Script("append", (_FOLDER / "append.lua").read_text(encoding="utf-8"))
BULK = _SCRIPTS["bulk"]
RECEIVE = _SCRIPTS["receive"]
SETTLE = _SCRIPTS["settle"]
EXTEND = _SCRIPTS["extend"]
PLACE_GROUP = _SCRIPTS["place_group"]
DELETE_GROUP = _SCRIPTS["delete_group"]
INSPECT_GROUP = _SCRIPTS["inspect_group"]
PAUSE_GROUP = _SCRIPTS["pause_group"]
WALK = _SCRIPTS["walk"]
TRIM = _SCRIPTS["trim"]
EXTENT = _SCRIPTS["extent"]
DOOR = _SCRIPTS["door"]
SEATS = _SCRIPTS["seats"]
UNPARK = _SCRIPTS["unpark"]
CONSUMER_NAMES = _SCRIPTS["consumer_names"]
