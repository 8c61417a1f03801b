"""Facts: the only way from the engine to screens, metrics, logs, database and lake.

An engine calls :meth:`Emitter.emit` on its hot path. Facts travel as columns: what a batch of them shares is said
once, from the engine to whoever books it. Which kinds there are, and which fields besides those that every engine has,
each engine declares itself: see :mod:`engine.core.fact_kinds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from engine.core.clock import LATEST_MS
from engine.core.subject import Subject

#: The most facts of one batch; who has more to say makes several.
BATCH_LIMIT = 2_000
#: The most facts that are read at once, and so the longest column: ten times what anybody writes.
MOST_FACTS = 10 * BATCH_LIMIT

#: What databases hold.
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A column: one value for all facts of a batch, or a list with one for each.
Texts = str | Annotated[list[str], Meta(max_length=MOST_FACTS)]
Numbers = Whole | Annotated[list[Whole], Meta(max_length=MOST_FACTS)]
#: A moment in epoch milliseconds, as every page can show it. Like every bound of a column it holds for what is read.
Moment = Annotated[int, Meta(ge=0, le=LATEST_MS)]
Moments = Moment | Annotated[list[Moment], Meta(max_length=MOST_FACTS)]
#: The most things that one fact tells of. A ledger's worth of them can be added up in 64 bits.
MOST_THINGS = 10**12
Amount = Annotated[int, Meta(ge=0, le=MOST_THINGS)]
Amounts = Amount | Annotated[list[Amount], Meta(max_length=MOST_FACTS)]


class Fields(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The fields of its own that an engine's facts have. An engine declares a subclass: each field is a column, typed
    :data:`Texts` or :data:`Numbers`, with the value that means "does not apply" as its default.

    On the wire they go by their order: new ones are added at the end, and none is ever taken out.
    """


class CoreFields(Fields, frozen=True, array_like=True, gc=False):
    """Those of the facts that belong to no engine."""

    #: How many things a fact tells of.
    amount: Amounts = 0


NO_FIELDS = CoreFields()


class FactBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``count`` facts of one kind about one subject. A column is one value for all of them, or a list of ``count``.

    ``kind`` is a declared one. ``at_ms`` is the wall time of each event. ``detail`` is a short human sentence, already
    free of secrets. Lists are not changed once they are in a batch.
    """

    kind: str
    at_ms: Moments
    #: What it is about; ``None`` for the installation as such.
    subject: Subject | None = None
    #: Who says so.
    node: str = ""
    count: int = 1
    #: Shared by everything that goes back to the same beginning.
    correlation_id: Texts = ""
    detail: Texts = ""
    fields: Fields = NO_FIELDS

    def part(self, start: int, stop: int) -> FactBatch:
        """The facts from ``start`` up to ``stop``."""
        if start == 0 and stop >= self.count:
            return self
        fields = msgspec.structs.replace(self.fields, **_cut(self.fields, self.fields.__struct_fields__, start, stop))
        return msgspec.structs.replace(
            self, count=min(stop, self.count) - start, fields=fields, **_cut(self, SHARED, start, stop)
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Fact by fact, each column and field by its name. For what is rare: it undoes what columns are for."""
        columns = {name: getattr(self, name) for name in SHARED}
        columns |= {name: getattr(self.fields, name) for name in self.fields.__struct_fields__}
        for index in range(self.count):
            yield {name: each[index] if type(each) is list else each for name, each in columns.items()}


#: The columns that the facts of every engine have.
SHARED = ("at_ms", "correlation_id", "detail")


def _cut(whole: msgspec.Struct, names: Sequence[str], start: int, stop: int) -> Mapping[str, Any]:
    return {name: column[start:stop] for name in names if type(column := getattr(whole, name)) is list}


class FactSink(Protocol):
    """Where facts go. Called from one thread; may block; an exception makes the same batches be offered again."""

    def write(self, facts: Sequence[FactBatch]) -> None: ...


class Emitter(Protocol):
    """The engine's side: never blocks, never raises."""

    def emit(self, facts: Sequence[FactBatch]) -> None: ...


class NullFacts:
    """Facts off."""

    def emit(self, facts: Sequence[FactBatch]) -> None:
        return


class MemoryFacts:
    """Keeps every batch in a list, for tests."""

    def __init__(self) -> None:
        self.batches: list[FactBatch] = []

    def emit(self, facts: Sequence[FactBatch]) -> None:
        self.batches.extend(facts)

    def kinds(self) -> list[str]:
        """The kind of each fact."""
        return [batch.kind for batch in self.batches for _ in range(batch.count)]


class _Run:
    """Batches of one kind and subject that came one after another, on their way into one."""

    __slots__ = ("_batches", "_count")

    def __init__(self, first: FactBatch) -> None:
        self._batches = [first]
        self._count = first.count

    def take(self, batch: FactBatch) -> bool:
        """Put ``batch`` behind the others if it belongs there."""
        first = self._batches[0]
        fits = (
            first.kind == batch.kind
            and type(first.fields) is type(batch.fields)
            and self._count + batch.count <= BATCH_LIMIT
        )
        if fits:
            self._batches.append(batch)
            self._count += batch.count
        return fits

    def joined(self) -> FactBatch:
        """All of them as one."""
        batches, first = self._batches, self._batches[0]
        if len(batches) == 1:
            return first
        fields = [batch.fields for batch in batches]
        return msgspec.structs.replace(
            first,
            count=self._count,
            fields=type(first.fields)(*[self._column(fields, name) for name in first.fields.__struct_fields__]),
            **{name: self._column(batches, name) for name in SHARED},
        )

    def _column(self, parts: Sequence[msgspec.Struct], name: str) -> Any:
        columns = [getattr(part, name) for part in parts]
        first = columns[0]
        if type(first) is not list and columns.count(first) == len(columns):
            return first
        joined: list[Any] = []
        for column, batch in zip(columns, self._batches, strict=True):
            joined += column if type(column) is list else [column] * batch.count
        return joined


def merged(batches: Sequence[FactBatch]) -> list[FactBatch]:
    """The same facts in fewer batches. Those about one subject stay in their order."""
    runs: list[_Run] = []
    last: dict[tuple[Subject | None, str], _Run] = {}
    for batch in batches:
        about = (batch.subject, batch.node)
        run = last.get(about)
        if run is None or not run.take(batch):
            last[about] = run = _Run(batch)
            runs.append(run)
    return [run.joined() for run in runs]
