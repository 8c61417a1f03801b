"""Which colour a state has. The word always stands beside it."""

from __future__ import annotations

_TONES: dict[str, str] = {
    "ok": (
        "active live running beating up ready alive answers settled delivered holds unbroken verified published "
        "connected healthy enabled owned stored done succeeded on sent quiet closed resolved"
    ),
    "warn": (
        "paused pausing draining drained retrying retried waiting delayed degraded starting restarting stopping "
        "stopped lagging released expired expiring expires-soon silent held stale not-verified parked keys-parked "
        "blocked behind topic-paused pending untried not-installed first-password unhandled unknown"
    ),
    "bad": (
        "dead failed failing down hung breaker-open breaker-probing no-handler lost store-lost ownerless broken "
        "refused revoked exited crashed gone error nowhere deactivated"
    ),
    "act": "redriven replayed discarded skipped unparked revealed granted changed acknowledged",
    "info": "queued settling new leased in-flight duplicate deduplicated",
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words.split()}


def tone_of(state: str) -> str:
    """``ok``, ``warn``, ``bad``, ``act``, ``info``, or ``neutral`` for a word nobody gave a meaning."""
    return _TONE_OF.get(state.strip().lower().replace(" ", "-").replace("_", "-"), "neutral")
