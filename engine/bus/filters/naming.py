"""How the name of a field is written in a path: as it is where it is plain, else in quotes, as JSON writes a text."""

from __future__ import annotations

import json
import re

#: As a pattern: a name in quotes of either kind.
QUOTED = r""""(?:[^"\\\x00-\x1f]|\\.)*"|'(?:[^'\\\x00-\x1f]|\\.)*'"""
#: As a pattern: a name that needs none.
PLAIN = r"[A-Za-z0-9_$-]+"
_PLAIN = re.compile(PLAIN)


def unquoted(said: str) -> str:
    """What a text in quotes stands for; raises ``ValueError`` for an escape that JSON does not know."""
    if said[0] == "'":
        # JSON knows one kind of quote.
        said = '"' + said[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    return str(json.loads(said))


def written(name: str) -> str:
    """A name as a path writes it; each has one way."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
