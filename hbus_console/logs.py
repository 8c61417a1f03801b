"""Which facts become log lines; see :mod:`~.log_setup` for what a line looks like."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import structlog

from engine.core.fact_kinds import QUIET
from engine.core.fact_sinks import SinkOnTheWay
from engine.core.facts import FactBatch, FactSink
from hbus_console.evidence.kinds import catalog_of, kinds

#: Of what goes to the sink at once (at most two thousand facts) so many lines of one kind; the rest is one line that
#: says how many.
_LINES = 100


class LoggingSink(SinkOnTheWay):
    """A fact sink that writes a JSON line for each fact of a kind that has a level, then passes all on to ``sink``.

    The other kinds are counted, and lie in the ledger; with ``everything`` (``HBUS_LOG_FACTS=all``) each has a line.
    A line carries the ids that lead on to ledger, page and trace. What is offered again is logged once.
    """

    def __init__(self, sink: FactSink, *, everything: bool = False) -> None:
        super().__init__(sink)
        self._everything = everything
        self._log = structlog.get_logger("hbus.facts")

    def note(self, facts: Sequence[FactBatch]) -> None:
        told: dict[str, int] = {}
        for batch in facts:
            level = self._level(batch.kind)
            if level == QUIET:
                continue
            before = told.get(batch.kind, 0)
            told[batch.kind] = before + batch.count
            for line in islice(_lines(batch), None if self._everything else max(0, _LINES - before)):
                self._log.log(level, batch.kind, **line)
        for kind, number in told.items():
            if not self._everything and number > _LINES:
                meaning = kinds()[kind].sentence
                self._log.warning(f"{kind}_suppressed", suppressed=number - _LINES, of=number, meaning=meaning)

    def _level(self, name: str) -> int:
        kind = kinds().get(name)
        level = kind.level if kind is not None else QUIET
        return logging.INFO if level == QUIET and self._everything else level


def _lines(batch: FactBatch) -> Iterator[dict[str, Any]]:
    """What is known about each fact, without its kind and without what does not apply."""
    subject, catalog = batch.subject, catalog_of(batch.kind)
    about: dict[str, Any] = {"node": batch.node}
    if subject is not None and catalog is not None and catalog.labels:
        about |= zip(catalog.labels, (subject.namespace, subject.name), strict=False)
    elif subject is not None:
        about["subject"] = str(subject)
    for row in batch.rows():
        yield {name: value for name, value in {**about, **row}.items() if value}
