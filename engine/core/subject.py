"""The subject: what a fact, an audit entry, an alert, an operation, a permission or a link is about.

Its text form is ``kind:namespace`` when the thing is the entry of the namespace itself, and ``kind:namespace/name``
when it is something in it: ``topic:booking.created``, ``subscription:booking.created/billing``, ``job:close-of-day``.
What belongs to no namespace, for it concerns the whole installation, leaves it out: ``user:/ada``.

The kind ends at the first colon, the namespace at the first slash; so a name may hold both, and no two subjects share
a text.
"""

from __future__ import annotations

import re

import msgspec

from engine.core.errors import BadInput

#: The longest kind, namespace and name, in characters.
KIND_LIMIT = 40
NAMESPACE_LIMIT = 200
NAME_LIMIT = 300
#: The longest text form.
TEXT_LIMIT = KIND_LIMIT + 1 + NAMESPACE_LIMIT + 1 + NAME_LIMIT

_KIND = re.compile(rf"(?=.{{1,{KIND_LIMIT}}}\Z)[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
# Neither may hold control characters, separators of lines, or halves of surrogate pairs, which no UTF-8 can carry.
_UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
# A star would be taken for the pattern of a scope.
_NAMESPACE = re.compile(rf"[^\s/*{_UNPRINTABLE}]{{0,{NAMESPACE_LIMIT}}}")
_NAME = re.compile(rf"[^{_UNPRINTABLE}]{{0,{NAME_LIMIT}}}")


class Subject(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One thing that evidence and governance speak of. Always valid; ``str()`` gives its text form.

    ``kind`` is a word of the engine or feature that owns the thing: lower-case letters, digits and hyphens.
    ``namespace`` is what roles and scopes speak of: for a topic its own dotted name, for a subscription its topic's;
    empty when the thing belongs to the whole installation. ``name`` tells it from its neighbours in the namespace;
    empty when the thing is the namespace's own entry. One of the two is there.

    Raises :class:`~engine.core.errors.BadInput` naming the field at fault.
    """

    kind: str
    namespace: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise BadInput(
                f"{_shown(self.kind)} is no kind of subject.",
                remedy=f"Use a-z, 0-9 and single hyphens between them, at most {KIND_LIMIT}, a letter first.",
                field="kind",
            )
        if not _NAMESPACE.fullmatch(self.namespace):
            raise BadInput(
                f"{_shown(self.namespace)} is no namespace.",
                remedy=f"Use at most {NAMESPACE_LIMIT} printable characters without space, slash and star.",
                field="namespace",
            )
        if not _NAME.fullmatch(self.name):
            raise BadInput(
                f"{_shown(self.name)} is no name of a subject.",
                remedy=f"Use at most {NAME_LIMIT} printable characters.",
                field="name",
            )
        if not self.namespace and not self.name:
            raise BadInput(
                f"A subject of kind {self.kind!r} needs a namespace or a name.",
                remedy="Say what it is about.",
                field="namespace",
            )

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}" if self.name else f"{self.kind}:{self.namespace}"

    @classmethod
    def parse(cls, text: str) -> Subject:
        """The subject that ``text`` is the text form of; what it gives back with ``str()`` is ``text`` again.

        Raises :class:`~engine.core.errors.BadInput` naming the part at fault, or ``subject`` when it has no parts.
        """
        kind, colon, rest = text[: TEXT_LIMIT + 1].partition(":")
        namespace, slash, name = rest.partition("/")
        if not colon or (slash and not name) or len(text) > TEXT_LIMIT:
            raise BadInput(
                f"{_shown(text)} is no subject.",
                remedy="Write kind:namespace, or kind:namespace/name, as in topic:booking.created.",
                field="subject",
            )
        return cls(kind, namespace, name)


def _shown(text: str) -> str:
    """``text`` as a message may quote it: no longer than a line, nothing unprintable."""
    return ascii(text if len(text) <= 60 else text[:60] + "…")
