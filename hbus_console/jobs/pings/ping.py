"""One ping, as it came."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from engine.core.errors import BadInput, HbusError, NotThere
from engine.cron.work.log_spool import shown

#: Of what is sent along the first so many bytes are kept.
MOST_BODY = 64 * 1024
#: Exit codes that a program can end with.
_CODES = {str(code): code for code in range(256)}


class PingWord(StrEnum):
    """What a ping says."""

    START = "start"
    SUCCESS = "success"
    FAILURE = "failure"
    #: Nothing but what it sends along.
    LOG = "log"


#: What stands behind the code in the address.
_WORDS = {"": PingWord.SUCCESS, "start": PingWord.START, "fail": PingWord.FAILURE, "log": PingWord.LOG}


class TooManyPings(HbusError):
    """More pings came than one address takes; nothing was booked."""

    title = "Too many pings"

    def __init__(self, wait_s: float, rate: int) -> None:
        super().__init__(f"This address takes {rate} pings a minute.", remedy=f"Ping again in {wait_s:,.0f} s.")
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Ping:
    """``sender`` is the address that it came from."""

    word: PingWord
    exit_code: int | None = None
    #: What pings of the same run have in common; empty where they say nothing.
    rid: str = ""
    #: Of what is longer than :data:`MOST_BODY` the rest is cut.
    body: bytes = b""
    #: How many bytes were announced; 0: nobody said.
    announced: int = 0
    sender: str = ""

    @property
    def says(self) -> str:
        """In a word or two."""
        return self.word.value if self.exit_code is None else f"exit code {self.exit_code}"

    @property
    def why(self) -> str:
        """Why the run failed, where it says that."""
        if self.word is not PingWord.FAILURE:
            return ""
        return "it said that it failed" if self.exit_code is None else f"it ended with exit code {self.exit_code}"

    @property
    def text(self) -> str:
        """What was sent along, as a log shows it."""
        if not self.body:
            return ""
        text = shown(self.body[:MOST_BODY])
        text += "" if text.endswith("\n") else "\n"
        if len(self.body) <= MOST_BODY:
            return text
        of = f"of {self.announced:,} bytes " if self.announced > MOST_BODY else ""
        return f"{text}… the rest was cut: {of}the first {MOST_BODY:,} bytes are kept\n"


def read_word(text: str) -> tuple[PingWord, int | None]:
    """What an address says behind its code; raises :class:`NotThere`."""
    code = _CODES.get(text)
    if code is not None:
        return (PingWord.FAILURE if code else PingWord.SUCCESS), code
    if text not in _WORDS:
        raise NotThere(
            "There is no such ping.",
            remedy="Use start, fail, log, an exit code from 0 to 255, or nothing.",
            field="ping",
        )
    return _WORDS[text], None


def read_rid(given: list[str]) -> str:
    """What binds pings of one run; raises :class:`BadInput` for what is no UUID."""
    if not given:
        return ""
    try:
        (rid,) = given
        if len(rid) not in (32, 36):
            raise ValueError(rid)
        return str(UUID(rid))
    except ValueError:
        raise BadInput("rid is no UUID.", remedy="Write rid=$(uuidgen), once.", field="rid") from None
