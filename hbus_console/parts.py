"""Work made of parts of which one's fault must not stop the others: the topics of a duty, the features of a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of
from engine.core.errors import HbusError, Unavailable

_T = TypeVar("_T")
#: Seconds after which a part that was unavailable has shown that asking again would take as long.
LONG_S = 1.0
#: How many parts an error names.
_NAMED = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Fault:
    """One part that was not done, and why."""

    part: str
    error: Exception

    @property
    def words(self) -> str:
        return self.error.what if isinstance(self.error, Unavailable) else text_of(self.error)


class PartsFailed(RuntimeError):
    """Some parts could not be done, for another reason than that somebody was away; the others were."""


class Parts:
    """One round of parts. What goes wrong with some is kept, and told once all have had their turn.

    ``sentence`` says what could not be done, with ``{parts}`` where their names belong. Errors in ``through`` are
    everybody's, such as a database that is away: they are raised at once. Not thread-safe.
    """

    def __init__(
        self,
        sentence: str = "{parts} failed",
        *,
        through: tuple[type[Exception], ...] = (),
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._sentence = sentence
        self._through = through
        self._away: dict[str, Unavailable] = {}
        self.faults: list[Fault] = []

    def do(self, part: str, work: Callable[[], _T], *, on: str | None = None) -> _T | None:
        """``work()``; ``None`` when it failed.

        ``on`` names what the part stands on, such as a store: once one part has waited long for it in vain
        (:data:`LONG_S`), the others that stand on it are left out of this round and count as failed, or a store that
        hangs would hold up the round as often as it has parts.
        """
        if on is not None and on in self._away:
            self.faults.append(Fault(part, self._away[on]))
            return None
        begun = self._clock.monotonic()
        try:
            return work()
        except self._through:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the part's and told below
            self.faults.append(Fault(part, error))
            waited_s = self._clock.monotonic() - begun
            if on is not None and isinstance(error, Unavailable) and waited_s >= LONG_S:
                self._away[on] = error
        return None

    def tell(self) -> None:
        """Raise what went wrong, if anything did.

        ``Unavailable`` when that is all that happened, else :class:`PartsFailed`; of several mistakes the first is its
        cause, and the others are logged.
        """
        if not self.faults:
            return
        mistakes = [fault for fault in self.faults if not isinstance(fault.error, Unavailable)]
        for fault in mistakes[1:]:
            log_fault(fault)
        first = (mistakes or self.faults)[0]
        named = list(dict.fromkeys([first.part, *(fault.part for fault in self.faults)]))
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        said = f"{self._sentence.format(parts=', '.join(named[:_NAMED]) + more)}: {first.words}"
        raise (PartsFailed(said) if mistakes else Unavailable(said)) from first.error


def log_fault(fault: Fault) -> None:
    """One line, with the traceback where it was nobody's purpose."""
    foreseen = isinstance(fault.error, HbusError)
    _log.error("a part failed", part=fault.part, error=fault.words, exc_info=None if foreseen else fault.error)
