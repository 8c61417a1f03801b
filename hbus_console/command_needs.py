"""Which commands make an installation, which need none, and how one is typed that is meant for this installation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from hbus_console import state

#: They make the installation that they work on where there is none.
MAKING = frozenset({"up", "prepare", "restore", "migrate", "hotel_demo"})
#: They work on none, and leave none behind.
NEEDING_NONE = frozenset(
    {"help", "version", "--version", "check", "makemigrations", "nsqd", "bench", "growth", "soak", "walls"}
)
#: And so do these acts of some that have others.
_ACTS_NEEDING_NONE = frozenset({("cron", "next"), ("job", "import-beat")})
#: Roles that a host may run alone, for installations elsewhere.
_STANDING_ALONE = frozenset({"store", "nsqd"})


def look_first(words: Sequence[str]) -> None:
    """Before the settings are read, which would make what is not there.

    Raises ``ConfigurationError`` for a command that works on an installation where there is none. ``words`` are those
    behind the program's name.
    """
    if not state.is_nowhere():
        return
    command = words[0] if words else "help"
    if command in NEEDING_NONE or tuple(words[:2]) in _ACTS_NEEDING_NONE or {"-h", "--help"}.intersection(words):
        state.make_nothing()
    elif command not in MAKING and not (command == "role" and _STANDING_ALONE.intersection(words[1:2])):
        state.refuse_nowhere()


def typed(command: str) -> str:
    """``command`` as a person types it for this installation: with its folder and port where they are not those that
    everybody has."""
    named = {"STATE": str(state.named_state()), "PORT": os.environ.get("PORT", "")}
    usual = {"STATE": str(state.ROOT / "var"), "PORT": "8000"}
    return " ".join(
        [
            *(f"{name}={shlex.quote(value)}" for name, value in named.items() if value not in ("", usual[name])),
            command,
        ]
    )
