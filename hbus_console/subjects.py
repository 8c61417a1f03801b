"""Subjects of things that others have named, such as a producer's message or a row of an older version."""

from __future__ import annotations

import re

from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, Subject

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NO_KIND = re.compile(r"[^a-z0-9]+")
_NO_NAMESPACE = re.compile(r"[\s/*]")


def of_text(text: str) -> Subject:
    """The subject of a text form that was stored; what a subject cannot hold is shown in its place."""
    kind, _, rest = text.partition(":")
    namespace, _, name = rest.partition("/")
    return readable(kind, namespace, name)


def readable(kind: str, namespace: str = "", name: str = "") -> Subject:
    """The subject of that kind and name; what a subject cannot hold is shown in its place, and what is too long ends.

    For names that nobody checked: a person can still decide about a thing whose name is odd, and the log says so.
    Where the name was checked before, make the ``Subject`` itself.
    """
    settled = _NO_KIND.sub("-", kind.lower()).strip("-").lstrip("0123456789-")[:KIND_LIMIT].strip("-")
    place = _NO_NAMESPACE.sub("_", _UNPRINTABLE.sub("?", namespace))[:NAMESPACE_LIMIT]
    said = _UNPRINTABLE.sub("?", name)[:NAME_LIMIT]
    return Subject(settled or "thing", place, said if place or said else "?")
