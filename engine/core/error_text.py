"""What an exception says, as text that can be stored and sent. Exceptions are foreign code: theirs may raise, too."""

from __future__ import annotations

from engine.core.redaction import redact_text
from engine.core.secret_values import NO_SECRETS, SecretValues

#: The longest text made of one exception, in characters.
TEXT_LIMIT = 8_000
#: The longest class name kept, in characters.
NAME_LIMIT = 200

_true_name = type.__dict__["__name__"].__get__


def storable(text: str, limit: int = TEXT_LIMIT) -> str:
    """The first ``limit`` characters, with lone surrogates, which UTF-8 cannot say, and NUL, which PostgreSQL does not
    take, written as escapes."""
    # By the methods of str itself: a subclass may have its own.
    said = str.encode(str.__getitem__(text, slice(limit)), "utf-8", "backslashreplace").decode()
    return said.replace("\0", "\\x00")[:limit]


def shortened(text: str, limit: int) -> str:
    """All of it in at most ``limit`` characters, storable; of what is longer the last one says so."""
    said = storable(text, limit + 1)
    return said if len(said) <= limit else f"{said[: limit - 1]}…"


def class_of(error: BaseException) -> str:
    """The name of its class; never raises."""
    name: str = _true_name(type(error))
    return storable(name, NAME_LIMIT)


def words_of(error: BaseException, limit: int = TEXT_LIMIT, secrets: SecretValues = NO_SECRETS) -> str:
    """What it says itself without what looks like a credential, at most ``limit`` characters; never raises.

    ``secrets``: what else is not to be in it.
    """
    try:
        # Behind the limit as well, or half of a secret that the cut goes through would be left.
        text = storable(str(error), 2 * TEXT_LIMIT)
        # What was taken out may have been so much that the end of it is shown.
        return redact_text(secrets.out_of(text, cut=len(text) >= 2 * TEXT_LIMIT))[:limit]
    except BaseException as worse:  # noqa: BLE001
        # Also a SystemExit or a RecursionError in somebody's __str__ is only a text that cannot be had.
        return f"(its text cannot be had: {class_of(worse)})"[:limit]


def text_of(error: BaseException, limit: int = TEXT_LIMIT, secrets: SecretValues = NO_SECRETS) -> str:
    """Its class and what it says, at most ``limit`` characters; never raises."""
    name, words = class_of(error), words_of(error, limit, secrets)
    return (f"{name}: {words}" if words else name)[:limit]
