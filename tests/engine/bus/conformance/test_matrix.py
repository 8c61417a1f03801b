"""The matrix says of each promise what a run has shown, and no more."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from engine.bus.conformance.matrix import BEGIN, END, Matrix, columns_of, written_into
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


def test_the_table_replaces_the_one_in_a_document_and_nothing_else(matrix: Matrix) -> None:
    document = f"# Title\n\n{BEGIN}\nof yesterday\n{END}\n\nThe rest.\n"
    written = written_into(document, matrix.markdown())
    assert written.startswith(f"# Title\n\n{BEGIN}\n\n|  | `pipe` |\n")
    assert written.endswith(f"{END}\n\nThe rest.\n")
    assert "of yesterday" not in written
    assert columns_of(written) == ["pipe"]
    assert written_into(written, matrix.markdown()) == written


def test_a_document_without_a_place_for_it_is_refused(matrix: Matrix) -> None:
    with pytest.raises(ValueError, match="no place"):
        written_into("# Title", matrix.markdown())
