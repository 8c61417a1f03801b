"""Parts of a document that a command writes: what lies between two comments that name it."""

from __future__ import annotations

from engine.core.errors import BadInput


def replaced(document: str, name: str, text: str) -> str:
    """``document`` with ``text`` in the section ``name``. Raises ``BadInput`` where there is no such section."""
    begin, end = _marks(name)
    before, found, rest = document.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise BadInput(f"The document has no section {name!r}.", remedy=f"Write {begin} and {end} into it.")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def section(document: str, name: str) -> str:
    """What the section holds now; empty where there is none."""
    begin, end = _marks(name)
    return document.partition(begin)[2].partition(end)[0].strip()


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: generated -->", f"<!-- /{name} -->"
