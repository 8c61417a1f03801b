"""What pings send along, in the log of their run."""

from __future__ import annotations

from collections.abc import Iterator

from hbus_console.jobs.log_pieces import append_piece

#: Characters of a piece.
_PIECE = 16 * 1024


def add_to_log(run: int, attempt: int, text: str, at_us: int) -> None:
    """Put ``text`` behind what is there; of a long log the middle is left out. Raises what databases raise."""
    for part in _pieces(text):
        append_piece(run, attempt, part, at_us)


def _pieces(text: str) -> Iterator[str]:
    """In lines, as far as these are no longer than a piece."""
    while text:
        end = len(text) if len(text) <= _PIECE else (text.rfind("\n", 0, _PIECE) + 1 or _PIECE)
        yield text[:end]
        text = text[end:]
