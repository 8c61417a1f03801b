"""What an operation can be: each kind counts beforehand what it would do, and then does it step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Protocol

from django.http import QueryDict

from engine.core.errors import BadInput, ConfigurationError
from engine.core.pacing import Pacing
from engine.core.subject import Subject
from hbus_console.access.acts import Act
from hbus_console.access.permissions import Actor
from hbus_console.operations.feature import OPERATION_END
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.registry.loading import features
from hbus_console.registry.names import OPERATION_KINDS
from hbus_console.ui.formats import num

Result = OperationItem.Result


@dataclass(frozen=True)
class Sample:
    """One thing the operation would touch."""

    subject: Subject
    at: datetime
    #: What tells it from the others.
    detail: str = ""
    #: See :attr:`Kind.facets`.
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanLine:
    """One line of what the dry run found out."""

    #: What is counted: "still wanted".
    label: str
    #: How many, or words.
    value: int | str
    #: What follows from it, in a few words.
    note: str = ""
    #: ``warn`` or ``bad`` where it should make one think.
    tone: str = ""

    @property
    def said(self) -> str:
        """The value as a page shows it."""
        return self.value if isinstance(self.value, str) else num(self.value)


#: How far an unfinished operation is, in the words of a dry run.
_FAR = {
    Operation.State.QUEUED: "waiting to begin",
    Operation.State.RUNNING: "running",
    Operation.State.PAUSED: "held",
    Operation.State.SETTLING: "done, and not decided yet what becomes of it",
}


@dataclass(frozen=True)
class Taken:
    """What another operation, unfinished, already has of what was chosen: it is left to that one."""

    operation: Operation
    count: int

    def __str__(self) -> str:
        """``3 of these are being redriven by operation 5 (held)``."""
        return self._by(True)

    @property
    def of_another(self) -> str:
        """The same for whoever may not see that operation."""
        return self._by(False)

    def told(self, visible: bool) -> str:
        """``redriven by operation 5 (held)``."""
        name = f"operation {self.operation.pk}" if visible else "another operation"
        far = _FAR.get(Operation.State(self.operation.state), "ended")
        return f"{kind_named(self.operation.kind).did} by {name} ({far})"

    def _by(self, visible: bool) -> str:
        return f"{num(self.count)} of these {'is' if self.count == 1 else 'are'} being {self.told(visible)}"


@dataclass(frozen=True)
class Plan:
    """The dry run. With an ``obstacle`` the operation cannot be started."""

    #: How many things it would touch; ``None`` when that shows only on the way.
    total: int | None
    samples: Sequence[Sample] = ()
    warnings: Sequence[str] = ()
    #: What was looked at to tell, as a sentence.
    scanned: str = ""
    obstacle: str = ""
    #: How far the choice reached, in the kind's own count: a start that gives it touches nothing that came later.
    #: ``None`` where nothing that comes later can be touched.
    horizon: int | None = None
    #: What an operator should know before it starts, the most telling first.
    findings: Sequence[PlanLine] = ()
    #: Of how many things the findings tell, as a sentence; empty: of all.
    sampled: str = ""
    #: What other operations have of the choice, which is not in ``total``. ``None`` where the kind cannot tell: then
    #: the same words under way are the same work.
    taken: Sequence[Taken] | None = None
    #: It costs too much to be told anew whenever something moves: its page stands still, and says from when it is.
    dear: bool = False
    #: How many were chosen where it would leave every one of them; the warnings say why.
    all_left: int = 0


@dataclass(frozen=True)
class Item:
    """What became of one thing. ``key`` tells it apart inside the operation."""

    key: str
    subject: Subject
    result: OperationItem.Result
    detail: str = ""
    #: What was made of it; its kind says whether that has an outcome of its own, see :mod:`.outcomes`.
    became: Subject | None = None
    #: What was reached with it, such as the subscription: there its operation is told.
    place: Subject | None = None
    #: See :attr:`Kind.facets`.
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """What one step did, and where the next one goes on."""

    items: Sequence[Item]
    cursor: Mapping[str, Any]
    finished: bool
    scanned: int = 0
    note: str = ""
    #: With the last one: of how many things it is known that others decided them before it came to them.
    overtaken: int = 0


#: Does what was looked at, in the transaction of the step.
Do = Callable[[], Step]


@dataclass(frozen=True)
class Task:
    """What a step is told. ``actor`` has the grants that whoever started the operation holds now, and they reach all
    that is left of it.
    """

    operation_id: int
    actor: Actor
    #: Where it was begun: beyond these it touches nothing.
    scopes: Sequence[str]
    spec: Mapping[str, Any]
    cursor: Mapping[str, Any]
    reason: str
    correlation_id: str


class OperationKind(Protocol):
    """One kind of operation. Stateless; all methods may be called from any process."""

    @property
    def name(self) -> str:
        """As stored and in addresses: ``redrive``."""
        ...

    @property
    def verb(self) -> str:
        """On buttons: ``Redrive``."""
        ...

    @property
    def action(self) -> Act:
        """What it takes, in every namespace it touches."""
        ...

    @property
    def effect(self) -> str:
        """What happens to each thing, and whether that can be undone, in a few sentences."""
        ...

    @property
    def did(self) -> str:
        """What was done to a thing that is done: ``redriven``."""
        ...

    @property
    def died(self) -> str:
        """What is said of those of its copies that died: ``died again`` where their originals had died."""
        ...

    @property
    def rate_per_s(self) -> int:
        """How many a second where nobody says it; 0: as fast as it goes."""
        ...

    @property
    def works_on(self) -> str:
        """The kind of the subjects it touches: ``message``."""
        ...

    @property
    def destructive(self) -> bool:
        """Whether what it takes away does not come back: the button that starts it is red."""
        ...

    @property
    def facets(self) -> Sequence[str]:
        """What else it tells of each of them, a column each: ``("subscription",)``."""
        ...

    def from_query(self, query: QueryDict) -> dict[str, Any]:
        """A spec from the address of the dry run's page."""
        ...

    def choice_url(self, spec: Mapping[str, Any]) -> str:
        """The page where ``spec``, as :meth:`from_query` gave it, was chosen and can be changed."""
        ...

    def check(self, actor: Actor, spec: Mapping[str, Any], horizon: int | None = None) -> dict[str, Any]:
        """The spec with everything named that was left open; raises ``BadInput`` or ``Forbidden``.

        ``horizon`` is that of a :class:`Plan`, and nothing beyond it is chosen; without one, all that is there now.
        """
        ...

    def namespace(self, spec: Mapping[str, Any]) -> str:
        """The one namespace it touches; empty when there may be several."""
        ...

    def title(self, spec: Mapping[str, Any]) -> str:
        """What it does, in one line."""
        ...

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        """Count and sample, changing nothing."""
        ...

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        """What holds its steps besides the rate that was asked for; ``actor`` has started it."""
        ...

    def ahead(
        self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]
    ) -> Mapping[str, int] | None:
        """In which namespaces within ``scopes`` it has still things to come to, and how many; ``None`` where that shows
        only on the way. Asked once something was taken from whoever started it: it goes on where this was not.
        """
        ...

    def let_go(self, operation_id: int) -> None:
        """This process does no more steps of it for now: it has ended, or is held. What was kept between its steps, to
        save time and no more, goes."""
        ...

    def look(self, task: Task, limit: int) -> Do:
        """Look at what the next step works on, at most ``limit`` things, and answer what does it.

        Stores are asked here, outside of any transaction, because a slow one would make every other writer wait; what
        is done to them here can be done again. The answer is called once, in the transaction that keeps the results
        and the cursor: it asks the database alone. What leaves for the bus leaves through the outbox, so a step happens
        wholly or not at all, however often it is tried. Whether the starter may do :attr:`action` in what is left was
        asked just before, see :mod:`.rights`; what else it takes is asked here.
        """
        ...


@cache
def _kinds() -> dict[str, OperationKind]:
    return OPERATION_KINDS.by_name(features())


@dataclass(frozen=True)
class NotInstalled:
    """Stands in for the kind of a stored operation that no installed feature brings: it is shown and ended."""

    name: str
    action: Act = OPERATION_END
    works_on: str = "thing"
    destructive: bool = False
    facets: tuple[str, ...] = ()
    effect: str = ""
    did: str = "done"
    died: str = "died"
    rate_per_s: int = 0

    @property
    def verb(self) -> str:
        return self.name

    @property
    def missing(self) -> ConfigurationError:
        """Why it does nothing."""
        return ConfigurationError(
            f"The kind {self.name!r} is not installed.",
            remedy="Install the feature that brings it (HBUS_APPS), or cancel the operation.",
            field="kind",
        )

    def from_query(self, query: QueryDict) -> dict[str, Any]:
        raise self.missing

    def choice_url(self, spec: Mapping[str, Any]) -> str:
        raise self.missing

    def check(self, actor: Actor, spec: Mapping[str, Any], horizon: int | None = None) -> dict[str, Any]:
        raise self.missing

    def namespace(self, spec: Mapping[str, Any]) -> str:
        raise self.missing

    def title(self, spec: Mapping[str, Any]) -> str:
        raise self.missing

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        raise self.missing

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        return None

    def ahead(
        self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]
    ) -> Mapping[str, int] | None:
        raise self.missing

    def let_go(self, operation_id: int) -> None:
        return None

    def look(self, task: Task, limit: int) -> Do:
        raise self.missing


def kind_named(name: str) -> OperationKind:
    """The kind of a stored operation; :class:`NotInstalled` when no installed feature brings it."""
    return _kinds().get(name) or NotInstalled(name)


def installed_kinds() -> tuple[OperationKind, ...]:
    """Those that the installed features bring, in the order of the features."""
    return tuple(_kinds().values())


def installed_kind(name: str) -> OperationKind:
    """The kind that somebody asks for. Raises ``BadInput`` for a name that no installed feature brings."""
    try:
        return _kinds()[name]
    except KeyError:
        names = ", ".join(sorted(_kinds()))
        raise BadInput(f"{name!r} is no kind of operation.", remedy=f"Use one of {names}.", field="kind") from None
