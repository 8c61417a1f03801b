"""Every promise is checked by some test of the kit, and every mark names something there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.bus.conformance import TransportConformance
from engine.bus.conformance.promises import PROMISES, keeps, lacking, needs
from engine.bus.transport import Capabilities

QUEUE = Capabilities(
    durable=True,
    browse=False,
    seek=False,
    priority=False,
    idempotent_publish=True,
    ordered=True,
    pause=True,
    min_bytes=1,
)


def kit() -> Iterator[pytest.Mark]:
    for name in dir(TransportConformance):
        if name.startswith("test_"):
            yield from getattr(getattr(TransportConformance, name), "pytestmark", [])


def test_every_promise_has_a_test() -> None:
    checked = {number for mark in kit() if mark.name == "keeps" for number in mark.args}
    assert checked == set(PROMISES) == {f"K{number}" for number in range(1, 47)}


def test_a_mark_on_a_class_is_a_mark_on_its_own_tests_alone() -> None:
    @keeps("K25")
    @needs("priority")
    class Some:
        def test_it(self) -> None: ...

    class Both(Some):
        def test_other(self) -> None: ...

    assert {mark.name: mark.args for mark in Both.test_it.pytestmark} == {  # type: ignore[attr-defined]
        "keeps": ("K25",),
        "needs": ("priority",),
    }
    assert not hasattr(Both.test_other, "pytestmark")
    assert not hasattr(Both, "pytestmark")


def test_what_is_no_promise_and_no_capability_is_refused() -> None:
    with pytest.raises(ValueError, match="K99"):
        keeps("K1", "K99")
    with pytest.raises(ValueError, match="levitation"):
        needs("browse", "levitation")


def test_what_a_transport_lacks_is_named() -> None:
    assert lacking(QUEUE, ["durable", "seek", "priority", "empty messages"]) == ["seek", "priority", "empty messages"]
    assert lacking(QUEUE, ["durable", "pause"]) == []
