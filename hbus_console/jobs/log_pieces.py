"""Where the log of a run is kept: pieces in the order in which they came, the first and the last of them."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from hbus_console.jobs.models import LogPiece

#: Of a run's log the first pieces are kept, and the last ones; between them it is cut. A piece is 16 KiB at most.
HEAD, TAIL = 16, 112
#: Others add to the same log at the same time, pings and the shippers of several attempts: so often the next place is
#: looked for.
_TRIES = 20


def append_piece(run: int, attempt: int, text: str, at_us: int, upto: int = 0) -> None:
    """Put ``text`` behind what is there; of a long log the middle is left out. Raises what databases raise.

    ``upto``: the byte of the attempt's file that it reaches.
    """
    pieces = LogPiece.objects.filter(run=run)
    for left in reversed(range(_TRIES)):
        seq = (pieces.order_by("-seq").values_list("seq", flat=True).first() or 0) + 1
        try:
            with transaction.atomic(using=pieces.db):
                LogPiece.objects.create(run=run, seq=seq, attempt=attempt, at_us=at_us, text=text, upto=upto)
                pieces.filter(seq__gt=HEAD, seq__lte=seq - TAIL).delete()
            return
        except IntegrityError:
            if not left:
                raise
