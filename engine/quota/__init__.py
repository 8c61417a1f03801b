"""Quotas: so much and no more, shared fairly by all nodes, and honest when cut off."""

from __future__ import annotations

from engine.quota.book import Book, Rule, Whose
from engine.quota.limiter import Closed, Limiter, LimiterStatus, Reservation, Source
from engine.quota.local import LocalLimiter
from engine.quota.node import QuotaNode
from engine.quota.periods import Period
from engine.quota.terms import OnLoss

__all__ = [
    "Book",
    "Closed",
    "Limiter",
    "LimiterStatus",
    "LocalLimiter",
    "OnLoss",
    "Period",
    "QuotaNode",
    "Reservation",
    "Rule",
    "Source",
    "Whose",
]  # fmt: skip
