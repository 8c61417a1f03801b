"""Both stores keep the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.delay.ledgers.conformance import LedgerConformance
from engine.delay.ledgers.contract import LedgerEngine
from engine.delay.ledgers.memory import ModelEngine
from engine.delay.ledgers.sqlite import SqliteEngine


class TestModel(LedgerConformance):
    @pytest.fixture
    def engine(self) -> LedgerEngine:
        return ModelEngine()


class TestSqlite(LedgerConformance):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> LedgerEngine:
        return SqliteEngine(tmp_path / "ledgers")
