"""Whether payloads fit their schemas: each message is asked once, and what came of it kept beside its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.core.error_text import shortened
from engine.pipeline.audit.findings import Sample
from engine.pipeline.audit.gathering import Gathered
from engine.pipeline.audit.hashing import hash_texts, signed
from engine.pipeline.audit.places import Places, joined
from engine.pipeline.audit.rereading import OF_MESSAGES, rows_at
from engine.pipeline.audit.scope import Scope
from engine.pipeline.audit.sides import FITTED, Array, read_side, write_side
from engine.pipeline.audit.summing import event_times, ms_of
from engine.pipeline.lake.reading import read_checked
from engine.pipeline.lake.state import LakeFile

#: Messages between two moments at which an audit can be stopped: judging a single one may take a second.
_AT_ONCE = 100
#: How much is told of what is wrong with one, characters: names of members may be of any length.
_MOST = 300
_PAYLOAD = ("data", "data_base64", "dataschema", "stored_at", "time")
_READ = ("id", "hbusreplay", "hbusdue", *_PAYLOAD)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The one list of texts: by what payloads were judged.
_RULES = "rules"


class StoredPayload(NamedTuple):
    """As the lake has it."""

    #: JSON text; ``None``: there is none.
    json: str | None
    #: It is bytes of another kind.
    is_binary: bool
    #: What the message says its schema is.
    dataschema: str
    #: When it was stored, epoch milliseconds.
    stored_ms: int
    #: When it was made, as its producer says, or else stored: it may have waited long in between.
    made_ms: int


class PayloadRules(Protocol):
    """What the payloads of one topic are held to, version by version."""

    def digest(self, until_ms: int) -> str:
        """Names what is held against messages that were stored until then, epoch milliseconds: another name wherever
        :meth:`fault` may answer otherwise for one of them. Empty: nothing is."""
        ...

    def fault(self, payload: StoredPayload) -> str:
        """What is wrong with it, as the end of a sentence; empty: nothing that may be told."""
        ...


@dataclass(frozen=True, slots=True)
class Fitting:
    """Asks the files of one topic. What was asked before is read."""

    root: Path
    rules: PayloadRules
    #: Called every now and then; what it raises ends it, and what was asked of whole files stays.
    go_on: Callable[[], None] = lambda: None

    def look(self, files: Sequence[LakeFile]) -> dict[str, Mapping[str, Array]]:
        """Of each file, by its path, the messages whose payload does not fit: ``row``, ``at``, and ``id``, a hash.

        Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`, ``OSError``, and what ``go_on`` raises.
        """
        found = {}
        for file in files:
            self.go_on()
            if digest := self.rules.digest(file.last_ms):
                found[file.path] = self._known(file, digest) or self._asked(file, digest)
        return found

    def _known(self, file: LakeFile, digest: str) -> Mapping[str, Array] | None:
        side = read_side(self.root, file, FITTED)
        return side.columns if side is not None and list(side.names.get(_RULES, ())) == [digest] else None

    def _asked(self, file: LakeFile, digest: str) -> Mapping[str, Array]:
        columns = self._ask(read_checked(self.root, file, _READ))
        write_side(self.root, file, {_RULES: [digest]}, columns, FITTED)
        return columns

    def _ask(self, table: pa.Table) -> Mapping[str, Array]:
        stored = ms_of(table["stored_at"])
        at, _ = event_times(table, stored)
        # A copy was judged as what it is of, and what is no envelope has no payload.
        asked = pc.and_(pc.is_valid(table["id"]), pc.is_null(table["hbusreplay"]))
        rows = np.flatnonzero(asked.to_numpy())
        unfit: list[int] = []
        for start in range(0, len(rows), _AT_ONCE):
            self.go_on()
            some = rows[start : start + _AT_ONCE]
            payloads = _payloads(table.select(_PAYLOAD).take(pa.array(some)))
            unfit += [row for row, payload in zip(some.tolist(), payloads, strict=True) if self.rules.fault(payload)]
        row = np.array(unfit, np.int32)
        return {"row": row, "at": at[row], "id": signed(hash_texts(table["id"].take(pa.array(row))))}


def unfit_places(files: Gathered, unfit: Mapping[str, Mapping[str, Array]], scope: Scope) -> Places:
    """Those of the span, of what :meth:`Fitting.look` found."""
    parts = []
    for number, side in enumerate(files.sides):
        if columns := unfit.get(side.file.path):
            file = np.full(len(columns["row"]), number, np.int32)
            parts.append(Places(columns["at"], columns["id"], file, columns["row"]).take(scope.holds(columns["at"])))
    return joined(parts)


def unfit_samples(root: Path, files: Gathered, rules: PayloadRules, places: Places) -> Sequence[Sample]:
    """With what is wrong with each. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    made = []
    rows = rows_at(root, files, places, (*OF_MESSAGES, *_PAYLOAD))
    for (id_, source, key, json, binary, said, stored, time), at in zip(rows, places.at.tolist(), strict=True):
        stored_ms, made_ms = _floor_ms(stored), _floor_ms(min(stored, time or stored))
        payload = StoredPayload(json, binary is not None, said or "", stored_ms, made_ms)
        made.append(Sample(id_, source or "", key or "", at, shortened(rules.fault(payload), _MOST)))
    return made


def _payloads(table: pa.Table) -> list[StoredPayload]:
    stored = ms_of(table["stored_at"])
    made = np.where(table["time"].is_valid().to_numpy(), np.minimum(ms_of(table["time"]), stored), stored)
    columns = (
        table["data"].to_pylist(),
        table["data_base64"].is_valid().to_pylist(),
        pc.fill_null(table["dataschema"], "").to_pylist(),
        stored.tolist(),
        made.tolist(),
    )
    return [StoredPayload(*row) for row in zip(*columns, strict=True)]


def _floor_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
