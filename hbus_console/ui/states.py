"""Which colour a state has. The word always stands beside it."""

from __future__ import annotations

_TONES: dict[str, str] = {
    "ok": "active live running up ready settled delivered holds verified published connected healthy enabled owned stored done succeeded",
    "warn": "paused draining retrying retried waiting delayed degraded starting restarting lagging released expired expires-soon silent stopping pausing held ahead stale",
    "bad": "dead failed down lost ownerless broken refused revoked exited crashed store_lost group_lost error unreachable disabled-by-failure gone",
    "act": "redriven discarded revealed granted changed acted",
    "info": "new dry-run chosen leased in-flight duplicate deduplicated",
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words.split()}


def tone_of(state: str) -> str:
    """``ok``, ``warn``, ``bad``, ``act``, ``info``, or ``neutral`` for a word nobody gave a meaning."""
    return _TONE_OF.get(state.strip().lower().replace(" ", "-"), "neutral")
