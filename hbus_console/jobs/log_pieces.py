"""Where the log of a run is kept: pieces in the order in which they came, bounded by what stands in them.

A piece is what half a second brought: of work that prints slowly a line. So the pieces that came before the newest are
joined from time to time, and what is cut is counted in bytes, not in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Length

from hbus_console.jobs.models import LogPiece

#: Of a run's log the beginning of each attempt is kept, and the end of it all, in characters; between them it is cut.
HEAD, TAIL = 64 * 1024, 1792 * 1024
#: Attempts, the newest, of which the beginning is kept beside that of the first.
HEADS = 16
#: How large a piece is at most, in characters, but for one that came larger.
LARGEST = 16 * 1024
#: After so many pieces a log is looked through, and so many of the newest are left as they came: who follows it asks
#: for what came after the last piece that it has seen.
EVERY, AS_THEY_CAME = 32, 128
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
                LogPiece.objects.create(
                    run=run, seq=seq, attempt=attempt, at_us=at_us, since_us=at_us, text=text, upto=upto
                )
                if seq % EVERY == 0:
                    _join(list(pieces.filter(seq__lte=seq - AS_THEY_CAME).order_by("-seq")[: EVERY + 1])[::-1])
                    _cut(pieces)
            return
        except IntegrityError:
            if not left:
                raise


def gap_before(piece: LogPiece, before: LogPiece | None) -> bool:
    """Whether something was left out between the two."""
    # Of a release before this one nobody counted what was, and no piece was joined.
    return bool(piece.left_bytes) or (before is not None and not piece.since_us and piece.seq > before.seq + 1)


def _join(pieces: Sequence[LogPiece]) -> None:
    """Neighbours become one, as far as it has room: the last of them, so that who has seen it is not told it again."""
    joined: list[list[LogPiece]] = []
    for piece in pieces:
        if joined and _fits(joined[-1], piece):
            joined[-1].append(piece)
        else:
            joined.append([piece])
    for some in joined:
        first, last = some[0], some[-1]
        if first is last:
            continue
        last.text = "".join(each.text for each in some)
        last.since_us = first.since_us
        last.left_bytes, last.left_lines, last.left_since_us = first.left_bytes, first.left_lines, first.left_since_us
        LogPiece.objects.filter(pk__in=[each.pk for each in some[:-1]]).delete()
        last.save()


def _fits(some: Sequence[LogPiece], piece: LogPiece) -> bool:
    if piece.attempt != some[-1].attempt or gap_before(piece, some[-1]) or not (piece.since_us and some[0].since_us):
        return False
    return sum(len(each.text) for each in some) + len(piece.text) <= LARGEST


def _cut(pieces: QuerySet[LogPiece]) -> None:
    """Leave out what is neither beginning nor end; what comes next says how much that was."""
    sizes = list(pieces.order_by("seq").annotate(size=Length("text")).values_list("pk", "attempt", "size"))
    kept = _ends(sizes) | _beginnings(sizes)
    gone = [pk for pk, *_ in sizes if pk not in kept]
    if not gone:
        return
    after = {pk: following for (pk, *_), (following, *_) in pairwise(sizes)}
    # From the last on, so that what several leave out is handed on to the one that stays.
    heirs: dict[int, int] = {}
    for pk in reversed(gone):
        heirs[pk] = heirs.get(after[pk], after[pk])
    for heir, some in groupby(pieces.filter(pk__in=gone).order_by("seq"), key=lambda piece: heirs[piece.pk]):
        _inherit(LogPiece.objects.get(pk=heir), list(some))
    pieces.filter(pk__in=gone).delete()


def _ends(sizes: Iterable[tuple[int, int, int]]) -> set[int]:
    kept, seen = set[int](), 0
    for pk, _, size in reversed(list(sizes)):
        if seen and seen + size > TAIL:
            break
        kept.add(pk)
        seen += size
    return kept


def _beginnings(sizes: Iterable[tuple[int, int, int]]) -> set[int]:
    seen: dict[int, int] = {}
    kept: dict[int, set[int]] = {}
    for pk, attempt, size in sizes:
        if attempt not in seen or seen[attempt] + size <= HEAD:
            kept.setdefault(attempt, set()).add(pk)
            seen[attempt] = seen.get(attempt, 0) + size
        else:
            # Once it is full, a short piece that would fit is no part of the beginning.
            seen[attempt] = HEAD + 1
    attempts = sorted(kept)
    return set().union(*(kept[attempt] for attempt in {*attempts[:1], *attempts[-HEADS:]}))


def _inherit(heir: LogPiece, gone: Sequence[LogPiece]) -> None:
    since = [each.left_since_us or each.since_us or each.at_us for each in gone]
    heir.left_since_us = min([*since, *([heir.left_since_us] if heir.left_since_us else [])])
    heir.left_bytes += sum(each.left_bytes + len(each.text.encode()) for each in gone)
    heir.left_lines += sum(each.left_lines + each.text.count("\n") for each in gone)
    # What was left out before may be of a release that did not count it: then it is counted from here on.
    heir.since_us = heir.since_us or heir.at_us
    heir.save()
