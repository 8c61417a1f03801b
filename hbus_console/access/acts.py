"""What can be done, and by whom: each feature declares its acts; :mod:`~hbus_console.access.permissions` decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Each role may do all that the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    GOVERNOR = "governor"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


@dataclass(frozen=True)
class Act:
    """One thing that can be done, named after what it is done to: ``topic.pause``."""

    name: str
    #: The least role that may do it.
    needs: Role
    #: How it reads in a sentence: "anna may not …".
    words: str
    #: Reading that any scope of the needed role opens, because what is shown is then filtered by the reader's scopes.
    #: Every other act on the installation as a whole takes a grant for ``*``, so that a forgotten resource refuses.
    reading: bool = False
    #: The kind of subjects whose namespace it asks for, such as ``topic``: what a refusal names as refused. Empty where
    #: a namespace is no thing of its own.
    about: str = ""

    @property
    def governed(self) -> bool:
        """Whether its refusal is worth an audit entry; being refused a page is not."""
        return not self.reading


#: Looking at what is not declared by anybody in particular.
VIEW = Act("view", Role.VIEWER, "look at this", reading=True)
