"""The store beside nsqd: what nsqd cannot keep, in Redis or Valkey, by scripts of our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.bus.errors import GroupLost
from engine.core.errors import Unavailable
from engine.core.scripts import load_scripts
from engine.core.store.failures import AnswerLost, NotSent, Refused
from engine.core.store.link import Link

_SCRIPTS = load_scripts(Path(__file__).parent / "lua")


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
        try:
            return self._link.command(*args, at=at)
        except Refused as error:
            raise _refused(error) from error
        except (NotSent, AnswerLost) as error:
            raise _away(error) from error

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

    def ping(self) -> None:
        """Ask each primary. Raises :class:`Unavailable`."""
        try:
            self._link.ping()
        except (NotSent, AnswerLost, Refused) as error:
            raise _away(error) from error

    def close(self) -> None:
        """Free the connections. Idempotent."""
        self._link.close()


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
