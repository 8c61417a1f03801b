"""The way an exception came, as text that can be kept: bounded, and never with the value of a variable."""

from __future__ import annotations

import linecache
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any

from engine.core.error_text import class_of, storable, text_of
from engine.core.redaction import redact_text

#: The longest stack trace kept, in bytes of UTF-8.
STACK_BYTES = 8_192
#: How many places of one exception are kept, counted from where it was raised.
PLACES = 24
#: How many exceptions are told of: the one itself, those it came from, and members of its groups.
EXCEPTIONS = 6
#: How many members of one group.
MEMBERS = 3
#: The longest line, in characters.
LINE = 200
#: Of a path outside of everything that is imported from, so many parts are shown.
_PARTS = 3

# Read as the interpreter keeps them: a class may put a property of its own in front of them.
_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_suppressed = BaseException.__dict__["__suppress_context__"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
_members = BaseExceptionGroup.__dict__["exceptions"].__get__


def stack_of(error: BaseException, limit: int = STACK_BYTES, said: Callable[[BaseException], str] = text_of) -> str:
    """The places on its way, each with its line of source, and those of the exceptions it came from, each under a line
    with what ``said`` makes of it; empty when there is neither. Never raises.

    Of each the innermost places are kept, and what is cut is said. Paths are those below a folder that is imported
    from. What looks like a credential in a line of source is left out.
    """
    try:
        told = list(islice(_related(error), EXCEPTIONS))
        room = max(limit, 0) // len(told)
        parts = [_section(f"{why} {said(each)}" if why else "", each, room) for why, each in told]
        return "\n".join(filter(None, parts))
    except BaseException as worse:  # noqa: BLE001
        # Exceptions are foreign code, and so is what loads their source.
        return f"(its stack trace cannot be had: {class_of(worse)})"


def _related(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """It, and where it came from, each once."""
    waiting, seen = deque([("", error)]), set[int]()
    while waiting:
        why, one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield why, one
        if (cause := _cause(one)) is not None:
            waiting.append(("caused by", cause))
        elif (context := _context(one)) is not None and not _suppressed(one):
            waiting.append(("raised while handling", context))
        if issubclass(type(one), BaseExceptionGroup):
            members = _members(one)
            waiting += [(f"one of {len(members)} in the group:", each) for each in members[:MEMBERS]]


@dataclass
class _Place:
    """One line of code on the way; ``times`` it was met without another between."""

    frame: FrameType
    line: int
    times: int = 1

    @property
    def text(self) -> str:
        code = self.frame.f_code
        where = f'  File "{_shown(code.co_filename)}", line {self.line}, in {code.co_qualname}'
        again = f"  [{self.times} times in a row]" if self.times > 1 else ""
        lines = [where[:LINE] + again, _source(code.co_filename, self.line, self.frame.f_globals)]
        return storable("\n".join(filter(None, lines)))


def _section(heading: str, error: BaseException, room: int) -> str:
    """What is said of one exception, in at most ``room`` bytes."""
    places, met = _places(error)
    heading = storable(heading, room // 8)
    # Room for saying how much is cut.
    left = room - _size(heading) - 40
    kept = deque[str]()
    for place in reversed(places):
        text = place.text
        left -= _size(text)
        if left < 0:
            break
        kept.appendleft(text)
    if len(kept) < met:
        kept.appendleft(f"  … {met - len(kept)} places further out are cut")
    return "\n".join(([heading] if heading else []) + list(kept))


def _places(error: BaseException) -> tuple[deque[_Place], int]:
    """The innermost ones, and how many there were."""
    found, met = deque[_Place](maxlen=PLACES), 0
    link = _traceback(error)
    while link is not None:
        last, line = found[-1] if found else None, link.tb_lineno or 0
        if last is not None and last.frame.f_code is link.tb_frame.f_code and last.line == line:
            last.times += 1
        else:
            found.append(_Place(link.tb_frame, line))
            met += 1
        link = link.tb_next
    return found, met


def _source(file: str, line: int, names: dict[str, Any]) -> str:
    try:
        text = linecache.getline(file, line, names).strip()
    except BaseException:  # noqa: BLE001
        # A module's own loader gives it: what that cannot do costs the line alone.
        return ""
    return f"    {_told_source(text)}" if text else ""


@lru_cache(maxsize=1024)
def _told_source(text: str) -> str:
    # Redacted before it is cut, or a half of a credential would be left.
    return redact_text(text[: LINE * 10])[:LINE]


@lru_cache(maxsize=1024)
def _shown(file: str) -> str:
    """Below the folder it is imported from: what lies above that is nobody's concern but the machine's."""
    if not os.path.isabs(file):
        return file
    roots = [os.path.abspath(root) for root in sys.path]
    within = [root for root in roots if file.startswith(root.rstrip(os.sep) + os.sep)]
    if within:
        return os.path.relpath(file, max(within, key=len))
    parts = file.strip(os.sep).split(os.sep)
    return "/".join(parts if len(parts) <= _PARTS else ["…", *parts[-_PARTS:]])


def _size(text: str) -> int:
    return len(text.encode()) + 1
