"""The code in a ping address, and what somebody writes who uses it."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

#: Where pings go, under the address of the console.
PATH = "ping"
#: All that a code may look like: what is another is not looked for.
CODE = re.compile(r"hbp_[A-Za-z0-9_-]{32}")
#: Schedules that a crontab understands as we do, but for the zone.
_PLAIN = re.compile(r"[0-9*/,-]+( [0-9A-Za-z*/,-]+){4}|@(hourly|daily|weekly|monthly|yearly)")
_CURL = "curl -fsS -m 10 --retry 5 -o /dev/null"


def new_code() -> str:
    """A code of 192 bits; its first letters tell whoever finds it in a log what it is, and logs leave it out."""
    return f"hbp_{secrets.token_urlsafe(24)}"


def address(base: str, code: str) -> str:
    """Where to ping. ``base`` is the address of this console."""
    return f"{base.rstrip('/')}/{PATH}/{code}"


@dataclass(frozen=True, slots=True)
class ReadyLine:
    """What can be taken over as it stands."""

    says: str
    text: str


def ready_lines(url: str, schedule: str) -> list[ReadyLine]:
    """For a crontab and for a script."""
    spreads = re.search(r"\bH\b", schedule)
    when = schedule if _PLAIN.fullmatch(schedule) and not spreads else "0 3 * * *"
    program = "/path/to/program"
    told = f'OUT=$({program} 2>&1); E=$?; echo "$OUT" | {_CURL} --data-binary @- "$URL/$E?rid=$R"'
    return [
        ReadyLine("In a crontab, when it is done", f"{when} {program} && {_CURL} {url}"),
        ReadyLine(
            "In a crontab, with its beginning, its exit code and what it prints",
            f'{when} URL={url}; R=$(uuidgen); {_CURL} "$URL/start?rid=$R"; {told}',
        ),
        ReadyLine("By hand", f"curl {url}"),
    ]
