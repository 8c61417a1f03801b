"""What an exception says, as text that can be stored and sent. Exceptions are foreign code: theirs may raise, too."""

from __future__ import annotations

import traceback

from engine.core.redaction import redact_text

#: The longest text made of one exception, in characters.
TEXT_LIMIT = 8_000
#: The longest class name kept, in characters.
NAME_LIMIT = 200
#: How many exceptions a chain of causes is followed.
CAUSES = 5

_true_name = type.__dict__["__name__"].__get__


def storable(text: str, limit: int = TEXT_LIMIT) -> str:
    """The first ``limit`` characters, with what UTF-8 cannot say (lone surrogates) written as an escape."""
    # By the methods of str itself: a subclass may have its own.
    return str.encode(str.__getitem__(text, slice(limit)), "utf-8", "backslashreplace").decode()[:limit]


def class_of(error: BaseException) -> str:
    """The name of its class; never raises."""
    name: str = _true_name(type(error))
    return storable(name, NAME_LIMIT)


def words_of(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    """What it says itself without what looks like a credential, at most ``limit`` characters; never raises."""
    try:
        return redact_text(storable(str(error)))[:limit]
    except BaseException as worse:  # noqa: BLE001
        # Also a SystemExit or a RecursionError in somebody's __str__ is only a text that cannot be had.
        return f"(its text cannot be had: {class_of(worse)})"[:limit]


def text_of(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    """Its class and what it says, at most ``limit`` characters; never raises."""
    name, words = class_of(error), words_of(error, limit)
    return (f"{name}: {words}" if words else name)[:limit]


def causes_of(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    """A line for each exception that was named as the cause, at most ``limit`` characters; never raises."""
    lines: list[str] = []
    seen = {id(error)}
    cause = _cause(error)
    while cause is not None and len(lines) < CAUSES and id(cause) not in seen:
        seen.add(id(cause))
        lines.append(f"caused by {text_of(cause, limit)}")
        cause = _cause(cause)
    return "\n".join(lines)[:limit]


def traceback_of(error: BaseException, frames: int) -> str:
    """The last ``frames`` places on its way, each with its line of source; never raises."""
    try:
        return storable("".join(traceback.format_tb(_traceback(error), limit=-frames)))
    except BaseException as worse:  # noqa: BLE001
        # Lines of source come from a module's own loader, which is foreign code again.
        return f"(its traceback cannot be had: {class_of(worse)})"


# Read as the interpreter keeps them: a class may put a property of its own in front of them.
_cause = BaseException.__dict__["__cause__"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
