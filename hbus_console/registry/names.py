"""Everything that features bring under a name, and that name: who collects it asks here, and so does the check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Generic, TypeVar

from hbus_console.access.acts import VIEW, Act
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, Owned, ProcessRole, SubjectKind
from hbus_console.registry.judging import AuditCheck
from hbus_console.registry.loading import resolve
from hbus_console.registry.reading import TopicReader
from hbus_console.registry.unique import unique

_T = TypeVar("_T")
#: Whose the things are that no feature brings.
HBUS = "hbus"


@dataclass(frozen=True)
class Named(Generic[_T]):
    """One sort of things that features bring."""

    #: What one is called, with its article: ``an act``.
    of: str
    #: The field of :class:`Feature` that they stand in.
    field: str
    #: Those of one feature, each with its name.
    brought: Callable[[Feature], Iterable[tuple[str, _T]]]
    #: Those that no feature brings.
    ours: Mapping[str, _T] = dataclass_field(default_factory=dict)

    def by_name(self, features: Iterable[Feature]) -> dict[str, _T]:
        """Those of all ``features``, in their order.

        Raises ``ConfigurationError`` for two of one name, and whatever resolving a path raises.
        """
        return unique(self.of, self._all(features))

    def _all(self, features: Iterable[Feature]) -> Iterator[tuple[str, str, _T]]:
        for name, thing in self.ours.items():
            yield HBUS, name, thing
        for feature in features:
            for name, thing in self.brought(feature):
                yield feature.name, name, thing


def _duties(feature: Feature) -> Iterator[tuple[str, Any]]:
    for maker in feature.duties:
        duty = resolve(maker)()
        yield duty.name, duty


def _kinds_of_alerts(feature: Feature) -> Iterator[tuple[str, Any]]:
    return ((kind.name, kind) for path in feature.alerts for kind in resolve(path))


def _kinds_of_facts(feature: Feature) -> Iterator[tuple[str, Any]]:
    return ((kind.name, kind) for path in feature.facts for kind in resolve(path).kinds)


def _projection(feature: Feature) -> Iterator[tuple[str, Any]]:
    if feature.projection:
        made = resolve(feature.projection)
        yield made.engine, made


ACTS = Named[Act]("an act", "acts", lambda it: ((act.name, act) for act in it.acts), ours={VIEW.name: VIEW})
SUBJECT_KINDS = Named[SubjectKind](
    "a kind of subjects", "subjects", lambda it: ((kind.name, kind) for kind in it.subjects)
)
ROLES = Named[ProcessRole]("a role", "roles", lambda it: ((role.name, role) for role in it.roles))
MENU_KEYS = Named[MenuEntry]("a menu entry", "menu", lambda it: ((entry.key, entry) for entry in it.menu))
SHORTCUTS = Named[MenuEntry](
    "a shortcut", "menu", lambda it: ((entry.shortcut, entry) for entry in it.menu if entry.shortcut)
)
#: Where several features have no prefix, their addresses tell their pages apart.
PREFIXES = Named[Mount](
    "pages under", "pages", lambda it: ((mount.prefix, mount) for mount in it.pages if mount.prefix)
)
OWNED = Named[Owned]("rows that a team owns as", "owned", lambda it: ((owned.relation, owned) for owned in it.owned))
AUDIT_WORDS = Named[str]("words for the audited act", "audit_words", lambda it: it.audit_words.items())
AUDIT_SIDES = Named[str]("what is shown of the audited act", "audit_sides", lambda it: it.audit_sides.items())
DUTIES = Named[Any]("a duty", "duties", _duties)
ALERT_KINDS = Named[Any]("an alert kind", "alerts", _kinds_of_alerts)
FACT_KINDS = Named[Any]("a fact kind", "facts", _kinds_of_facts)
PROJECTIONS = Named[Any]("a projection of the engine", "projection", _projection)
OPERATION_KINDS = Named[Any](
    "a kind of operation", "operations", lambda it: ((kind.name, kind) for kind in map(resolve, it.operations))
)
AUDITS = Named[AuditCheck](
    "a check of audits", "audits", lambda it: ((check.name, check) for check in map(resolve, it.audits))
)
TOPIC_READERS = Named[TopicReader](
    "a reader of topics", "topic_readers", lambda it: ((each.name, each) for each in map(resolve, it.topic_readers))
)
EXAMPLES = Named[Any]("an example", "examples", lambda it: ((each.name, each) for each in map(resolve, it.examples)))

NAMED: tuple[Named[Any], ...] = (
    ACTS,
    SUBJECT_KINDS,
    ROLES,
    MENU_KEYS,
    SHORTCUTS,
    PREFIXES,
    OWNED,
    AUDIT_WORDS,
    AUDIT_SIDES,
    DUTIES,
    ALERT_KINDS,
    FACT_KINDS,
    PROJECTIONS,
    OPERATION_KINDS,
    AUDITS,
    TOPIC_READERS,
    EXAMPLES,
)
