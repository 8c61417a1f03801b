"""Follows the running numbers of the fact stream: what is missing is told, and no invented number counts."""

from __future__ import annotations

from hbus_console.evidence.fact_stream import Entry

#: How many notices one entry may leave about what could not be read of it.
MOST_NOTICES = 20

Missing = tuple[int, str]


class Numbering:
    """Where a reader of the stream stands: ``position``, the number of the last fact that is booked.

    Whoever can write to the store can number an entry as they like. Believed is a number that is not below the
    position and not above ``came_in``, how many facts ever came into the store by its own count, asked for after the
    entries were read. Only when that count itself went back is the position lowered: then the store was emptied.
    """

    def __init__(self, position: int, came_in: int) -> None:
        self.position = position
        self._came_in = came_in
        self._doubted = False

    def follow(self, entry: Entry) -> list[Missing]:
        """Move to the end of ``entry``; what is missing before it and in it, each as how many facts and a sentence."""
        found = self._restarted(entry)
        begins = entry.last - entry.count
        # Who writes an entry without a number has not counted its facts with the others.
        believed = bool(entry.last) and self.position <= entry.last <= self._came_in
        gap = max(begins - self.position, 0) if believed else 0
        if entry.last and not (believed and begins >= self.position):
            found += self._doubt(entry)
        if believed:
            self.position = entry.last
        if entry.broken:
            return [*found, (gap, f"Entry {entry.id} of the fact stream is unreadable: {entry.broken}.")]
        for known, why in _told(entry):
            # Where nobody knows how many it was, all that is missing will have been in it.
            found.append((known or gap, f"A part of entry {entry.id} of the fact stream is unreadable: {why}."))
            gap = gap if known else 0
        if gap:
            found.append((gap, f"{gap} facts were dropped because the keeper was away for too long."))
        return found

    def _restarted(self, entry: Entry) -> list[Missing]:
        if self._came_in >= self.position:
            return []
        begins = entry.last - entry.count
        self.position = begins if 0 <= begins <= self._came_in else self._came_in
        return [(0, "The store has forgotten facts: it was emptied, or restored from an older state.")]

    def _doubt(self, entry: Entry) -> list[Missing]:
        """One notice for all such entries: after a store was restored there may be many."""
        if self._doubted:
            return []
        self._doubted = True
        said = (
            f"Entry {entry.id} of the fact stream says that it ends with fact {entry.last}, which does not go with the "
            f"{self.position} before it and the {self._came_in} that came in. What can be read of it is "
            "booked. The store was restored from an older state, or something else writes to it."
        )
        return [(0, said)]


def _told(entry: Entry) -> list[Missing]:
    """What could not be read of it, from some number on together."""
    lost = entry.contents.lost
    if len(lost) <= MOST_NOTICES:
        return lost
    first, rest = lost[: MOST_NOTICES - 1], lost[MOST_NOTICES - 1 :]
    return [*first, (sum(known for known, _ in rest), f"{len(rest)} more, the last because of this: {rest[-1][1]}")]
