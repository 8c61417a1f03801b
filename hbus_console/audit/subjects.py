"""How an entry keeps its subject: the columns, and the fields under the hash, are those of the first entries.

An entry has a type, a target and a namespace. The type is the subject's kind with ``_`` for ``-``. The target is its
name; for a subject that is its namespace's own entry it is the namespace, and for kinds whose names mean something in
their namespace only (:attr:`~hbus_console.registry.declaration.SubjectKind.local`) it is ``namespace/name``.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from engine.core.subject import Subject
from hbus_console.registry.subjects import kind_named
from hbus_console.subjects import readable

#: The kind of a namespace with all that lies in it: what a scope such as ``booking.*`` names.
NAMESPACE = "namespace"
#: The whole installation.
INSTALLATION = Subject("installation", "", "hbus")
#: The log itself.
LOG = Subject("audit", "", "audit log")


@dataclass(frozen=True)
class Stored:
    """A subject as an entry's columns hold it."""

    target_type: str
    target: str
    namespace: str


def stored(subject: Subject) -> Stored:
    """The columns of ``subject``; :func:`read` makes it of them again."""
    target_type = subject.kind.replace("-", "_")
    if not subject.name:
        return Stored(target_type, subject.namespace, subject.namespace)
    plain = Stored(target_type, subject.name, subject.namespace)
    if subject.namespace and (kind_named(subject.kind).local or read(plain) != subject):
        return Stored(target_type, f"{subject.namespace}/{subject.name}", subject.namespace)
    return plain


def read(columns: Stored) -> Subject:
    """The subject of those columns, of whichever version wrote them. Never fails."""
    namespace = columns.namespace.removesuffix(".*")
    if columns.target == columns.namespace and namespace:
        # Older versions wrote a scope as if it were a thing's name.
        return readable(columns.target_type if namespace == columns.namespace else NAMESPACE, namespace)
    return readable(columns.target_type, namespace, columns.target.removeprefix(f"{namespace}/" if namespace else ""))


def about(subject: Subject) -> Q:
    """The filter for entries about ``subject``; an index serves it."""
    columns = stored(subject)
    return Q(target_type=columns.target_type, target=columns.target, namespace=columns.namespace)
