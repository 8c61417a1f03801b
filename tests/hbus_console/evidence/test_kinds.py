"""Every kind of fact is declared once, and what is told of it anywhere derives from that declaration."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from engine.bus.fact_kinds import BUS_KINDS, Books
from engine.bus.facts import BusFields
from engine.core.errors import ConfigurationError
from engine.core.fact_kinds import QUIET, FactCatalog, Tone
from engine.core.facts import SHARED, FactBatch
from engine.core.subject import Subject
from hbus_console import metrics
from hbus_console.evidence import kinds as declared
from hbus_console.evidence.kinds import catalog_of, catalogs, kinds
from hbus_console.logs import LoggingSink
from hbus_console.messages.models import FlowSample, LedgerEvent
from hbus_console.messages.timeline import _words
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import features
from hbus_console.state import ROOT

NAMES = sorted(kinds())
#: What makes facts, and the place of the kind among its arguments. ``kind=`` names one anywhere.
MAKERS = {"Fact": 0, "FactBatch": 0, "Finished": 1, "say": 1, "_say": 0, "_emit": 0, "_note": 1, "_settle_unhandled": 1}


class _Nothing:
    def write(self, facts: object) -> None:
        return


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_says_all_that_is_asked_of_it(name: str) -> None:
    kind = kinds()[name]
    assert kind.sentence
    assert kind.tone in Tone
    assert kind.level in (QUIET, logging.INFO, logging.WARNING, logging.ERROR)
    assert kind.counter.says.endswith(".")
    assert len(kind.counter.labels) <= 2
    catalog = catalog_of(name)
    assert catalog is not None
    fields = set(catalog.fields.__struct_fields__)
    assert {kind.counter.adds} - {""} <= fields
    assert kind.timer is None or kind.timer.field in fields
    # What calls for a person is worth a line that somebody reads
    if kind.calls_for_a_person:
        assert kind.level >= logging.WARNING
        assert kind.calls_for_a_person.format(place="p", namespace="n", name="m", amount="1")
    if kind.over_with:
        over = kinds()[kind.over_with]
        assert kind.calls_for_a_person
        assert not over.calls_for_a_person
        assert catalog_of(over.name) is catalog
    if kind.tone is Tone.BAD:
        assert kind.level >= logging.ERROR
    assert len(name) <= LedgerEvent._meta.get_field("kind").max_length


@pytest.mark.parametrize("name", sorted(BUS_KINDS))
def test_a_kind_of_the_bus_says_what_the_ledger_makes_of_it(name: str) -> None:
    kind = BUS_KINDS[name]
    assert kind.flow == "" or kind.flow in {field.name for field in FlowSample._meta.fields}
    assert not (kind.flow and kind.books & Books.NOTICE)
    assert kind.bar is None or kind.books & Books.EVENT
    # What a timeline shows has words of its own: here, or in the timeline because they are more than one sentence
    if kind.books & Books.EVENT and name not in ("retried", "redriven", "discarded"):
        event = LedgerEvent(kind=name, subscription="g", at_ms=1, due_ms=1)
        life = type("Life", (), {"events": [event], "source": "/s"})()
        tone, words, _ = _words(life, event)
        assert tone == kind.tone
        assert words != name.replace("_", " ").capitalize()


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_is_logged_and_counted_as_it_is_declared(name: str) -> None:
    kind, catalog = kinds()[name], catalog_of(name)
    assert catalog is not None
    batch = FactBatch(name, 1, Subject("subscription", f"k.{name}", "g"), "n", fields=catalog.fields())
    with capture_logs() as lines:
        LoggingSink(_Nothing()).write([batch])
    assert [line["event"] for line in lines] == ([name] if kind.level != QUIET else [])
    labels = dict(zip(kind.counter.labels, (f"k.{name}", "g"), strict=False))

    def counted() -> float:
        return REGISTRY.get_sample_value(f"hbus_{name}_total", labels) or 0

    before = counted()
    metrics.count([batch])
    assert counted() - before == (0 if kind.counter.adds else 1)


def test_parked_unparked_skipped_and_the_breakers_kinds_have_level_and_counter() -> None:
    metrics._counters()
    families = {family.name for family in REGISTRY.collect()}
    for name in ("parked", "unparked", "skipped", "breaker_opened", "breaker_probing", "breaker_closed"):
        assert kinds()[name].level >= logging.INFO
        assert f"hbus_{name}" in families


AGAIN = FactCatalog("other", (replace(BUS_KINDS["settled"], sentence="something else"),))


def test_a_kind_declared_by_two_engines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Feature("other", facts=(f"{__name__}:AGAIN",))
    monkeypatch.setattr(declared, "features", lambda: (*features(), other))
    with pytest.raises(ConfigurationError, match="topics and other both bring a fact kind 'settled'"):
        kinds.__wrapped__()


def test_the_columns_of_an_engine_are_not_named_like_those_of_all() -> None:
    for catalog in catalogs():
        assert not {*SHARED, "kind", "subject", "node", "count"} & set(catalog.fields.__struct_fields__)
        # An empty set of fields is one whose every column does not apply
        assert all(
            not value for value in (getattr(catalog.fields(), each) for each in catalog.fields.__struct_fields__)
        )


def test_the_fields_of_the_bus_keep_their_order_on_the_wire() -> None:
    assert BusFields.__struct_fields__ == (
        "message_id", "key", "causation_id", "trace_id", "type", "source", "position", "attempt", "duration_us",
        "size", "due_ms", "error", "fingerprint", "stack_id", "stack",
    )  # fmt: skip


def test_core_knows_no_word_of_the_bus() -> None:
    words = {"topic", "subscription", "message", "delivery", "breaker", "position", "attempt"}
    for path in (ROOT / "engine" / "core").glob("fact*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not {name for name in names for word in words if word in name.split("_")}, path


def emitted() -> Iterator[tuple[str, str]]:
    """Every kind that engine or console emit by a literal, with where."""
    for folder in ("engine", "hbus_console", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            imports_facts = "facts" in path.read_text(encoding="utf-8")
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and imports_facts:
                    yield from ((kind, f"{path.relative_to(ROOT)}:{node.lineno}") for kind in _kinds_of(node))


def _kinds_of(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    place = MAKERS.get(name)
    if place is not None and len(call.args) > place:
        yield from _texts(call.args[place])


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)


def test_every_kind_that_is_emitted_is_declared() -> None:
    found = dict(emitted())
    assert not {kind: where for kind, where in found.items() if kind not in kinds()}
    # What stands in tables and branches it cannot see; there the recorders of the tests take none that is not declared
    assert len(found) >= 12
