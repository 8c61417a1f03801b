"""What pings send along, in the log of their run."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import IntegrityError, transaction

from hbus_console.jobs.models import LogPiece
from hbus_console.jobs.working.shipping import HEAD, TAIL

#: Characters of a piece.
_PIECE = 16 * 1024
#: Others add to the same log at the same time: so often the next place is looked for.
_TRIES = 20


def add_to_log(run: int, attempt: int, text: str, at_us: int) -> None:
    """Put ``text`` behind what is there; of a long log the middle is left out. Raises what databases raise."""
    for part in _pieces(text):
        _add(run, attempt, part, at_us)


def _add(run: int, attempt: int, text: str, at_us: int) -> None:
    pieces = LogPiece.objects.filter(run=run)
    for left in reversed(range(_TRIES)):
        seq = (pieces.order_by("-seq").values_list("seq", flat=True).first() or 0) + 1
        try:
            with transaction.atomic(using=pieces.db):
                LogPiece.objects.create(run=run, seq=seq, attempt=attempt, at_us=at_us, text=text)
                pieces.filter(seq__gt=HEAD, seq__lte=seq - TAIL).delete()
            return
        except IntegrityError:
            if not left:
                raise


def _pieces(text: str) -> Iterator[str]:
    """In lines, as far as these are no longer than a piece."""
    while text:
        end = len(text) if len(text) <= _PIECE else (text.rfind("\n", 0, _PIECE) + 1 or _PIECE)
        yield text[:end]
        text = text[end:]
