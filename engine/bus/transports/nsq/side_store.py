"""The store beside nsqd: what nsqd cannot keep, in Redis or Valkey, by scripts of our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, TypeVar

from engine.bus.errors import GroupLost
from engine.core.errors import Unavailable
from engine.core.scripts import load_scripts
from engine.core.store.failures import AnswerLost, NotSent, Refused
from engine.core.store.heavy_streams import StreamEntry, StreamRange, first_of
from engine.core.store.left_streams import forget_entries
from engine.core.store.link import Link

T = TypeVar("T")
_SCRIPTS = load_scripts(files("engine.bus.transports.nsq") / "lua")


def group_lost(group: str, why: str = "is not in the store: it was flushed, failed over or deleted") -> GroupLost:
    """What to raise when a group's state is gone."""
    return GroupLost(
        f"The group {group!r} {why}.",
        remedy="Make it anew; NSQ gives it what is published from then on. Look for what removed it.",
    )


class SideStore:
    """Thread-safe. Nothing is repeated behind the caller's back: a script that ran twice would lease twice."""

    def __init__(self, url: str) -> None:
        self._link = Link.open(url)

    def run(self, script: str, keys: Sequence[str], args: Sequence[str | int | bytes], *, group: str = "") -> Any:
        """Run a script. Raises :class:`Unavailable`, or :class:`GroupLost` where the script says so."""
        try:
            return self._link.run(_SCRIPTS[script], keys, args)
        except Refused as error:
            if error.words.startswith("GROUPLOST"):
                raise group_lost(group) from error
            raise _refused(error) from error
        except (NotSent, AnswerLost) as error:
            raise _away(error) from error

    def command(self, *args: str | int | bytes, at: str = "") -> Any:
        """Run one command; one about no key runs where the key ``at`` is. Raises :class:`Unavailable`."""
        return self._ask(lambda link: link.command(*args, at=at))

    def each(self, calls: Sequence[tuple[str | int | bytes, ...]]) -> list[Any]:
        """The answers to many commands, in a few round trips. Raises :class:`Unavailable`, also when one is refused."""
        try:
            answers = self._link.each(calls)
        except (NotSent, AnswerLost) as error:
            raise _away(error) from error
        for answer in answers:
            if isinstance(answer, Refused):
                raise _refused(answer) from answer
        return answers

    def oldest(self, stream: str, *, limit: int, room: int) -> Sequence[StreamEntry[tuple[int, ...]]]:
        """The oldest entries of a stream, as :func:`first_of` bounds them. Raises :class:`Unavailable`."""
        span = StreamRange(stream, "-", "+")
        return self._ask(lambda link: first_of(link, [span], _place, limit=limit, room=room)).entries

    def forget(self, stream: str, owner: str, ids: Sequence[str]) -> int:
        """Drop entries, as :func:`forget_entries` does. Raises :class:`Unavailable`."""
        return self._ask(lambda link: forget_entries(link, stream, owner, ids))

    def _ask(self, question: Callable[[Link], T]) -> T:
        try:
            return question(self._link)
        except Refused as error:
            raise _refused(error) from error
        except (NotSent, AnswerLost) as error:
            raise _away(error) from error

    def ping(self) -> None:
        """Ask each primary. Raises :class:`Unavailable`."""
        try:
            self._link.ping()
        except (NotSent, AnswerLost, Refused) as error:
            raise _away(error) from error

    def close(self) -> None:
        """Free the connections. Idempotent."""
        self._link.close()


def _place(_: int, entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))


def _away(error: Unavailable) -> Unavailable:
    what = f"The store beside NSQ cannot be reached: {error.what.rstrip('.')}."
    return _as_sure(error, Unavailable(what, remedy="Make sure that it runs and that REDIS_URL names it."))


def _refused(error: Refused) -> Unavailable:
    return _as_sure(
        error, Unavailable(f"The store beside NSQ refused: {error.words.rstrip('.')}.", remedy=error.remedy)
    )


def _as_sure(error: Unavailable, told: Unavailable) -> Unavailable:
    told.untouched = error.untouched
    return told
