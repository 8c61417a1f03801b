"""The Lua scripts: one file each under ``lua/``, with what they share put in front."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"
_COMMON = (_FOLDER / "common.lua").read_text(encoding="utf-8")


class Script:
    """One script: its text, and the digest by which a server that has seen it knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = f"{_COMMON}\n{(_FOLDER / f'{name}.lua').read_text(encoding='utf-8')}"
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


PUBLISH = Script("publish")
RECEIVE = Script("receive")
SETTLE = Script("settle")
EXTEND = Script("extend")
PLACE_GROUP = Script("place_group")
INSPECT_GROUP = Script("inspect_group")
PAUSE_GROUP = Script("pause_group")
WALK = Script("walk")
TRIM = Script("trim")
SEATS = Script("seats")
UNPARK = Script("unpark")
CONSUMER_NAMES = Script("consumer_names")
