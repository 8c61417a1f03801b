"""The matrix says of each promise what a run has shown, and no more."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from engine.bus.conformance.matrix import SECTION, Matrix, columns_of
from engine.core.sections import replaced
from tests.engine.bus.conformance.test_promises import QUEUE


@pytest.fixture
def matrix() -> Matrix:
    made = Matrix()
    made.declared("pipe", {**asdict(QUEUE), "beside": ["pause"]})
    return made


def test_a_promise_is_kept_when_every_test_of_it_passed(matrix: Matrix) -> None:
    matrix.add("pipe", ["K1", "K2"], "passed")
    matrix.add("pipe", ["K2"], "failed")
    assert matrix.cell("K1", "pipe") == "kept"
    assert matrix.cell("K2", "pipe") == "BROKEN (1 of 2)"
    assert matrix.cell("K3", "pipe") == "not run"


def test_what_was_left_out_is_said_beside_what_was_kept(matrix: Matrix) -> None:
    matrix.add("pipe", ["K4", "K5"], "skipped", "not declared: seek, browse")
    matrix.add("pipe", ["K5"], "skipped", "not declared: priority")
    matrix.add("pipe", ["K5"], "skipped", "not given: a store to restart")
    matrix.add("pipe", ["K5"], "passed")
    assert matrix.cell("K4", "pipe") == "not declared: browse, seek"
    assert matrix.cell("K5", "pipe") == "kept; not declared: browse, priority, seek; not given: a store to restart"


def test_capabilities_are_those_the_transport_declares(matrix: Matrix) -> None:
    said = {name: matrix.capability(name, "pipe") for name in ("durable", "pause", "seek", "max_bytes")}
    assert said == {"durable": "yes", "pause": "beside it", "seek": "no", "max_bytes": "16,777,216"}


def test_a_document_shows_whose_columns_it_has(matrix: Matrix) -> None:
    document = replaced("<!-- conformance: generated -->\n<!-- /conformance -->", SECTION, matrix.markdown())
    assert columns_of(document) == ["pipe"]
    assert columns_of("# Nothing") == []
