"""A transport's admin side that answers what a test wants; everything else about stores is tested on the real one."""

from __future__ import annotations

from typing import Any

from engine.bus.transport import Lag, TrimReport


class ScriptedAdmin:
    """``lags`` and ``trims`` hold the answer, or the error to raise, by topic."""

    def __init__(self) -> None:
        self.lags: dict[str, Lag | Exception] = {}
        self.checkpoints: dict[str, str] = {}
        self.trims: dict[str, TrimReport | Exception] = {}
        self.asked: list[tuple[str, int | None, int | None]] = []

    def lag(self, topic: str, group: str) -> Lag:
        return _answer(self.lags[topic])

    def checkpoint(self, topic: str, group: str) -> str:
        return self.checkpoints.get(topic, "")

    def trim(self, topic: str, *, older_than_ms: int | None, keep_at_most: int | None) -> TrimReport:
        self.asked.append((topic, older_than_ms, keep_at_most))
        return _answer(self.trims.get(topic, TrimReport(removed=0)))


def _answer(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value
