"""Which colour a state has. The word always stands beside it. What engines say of theirs their features declare."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hbus_console.registry.loading import features

_TONES: dict[str, str] = {
    "ok": (
        "active live running beating up ready alive answers settled delivered holds unbroken verified published "
        "connected healthy enabled owned stored done succeeded on sent quiet closed resolved"
    ),
    "warn": (
        "paused pausing draining drained retrying retried waiting delayed degraded starting restarting stopping "
        "stopped lagging released expired expiring expires-soon silent held stale not-verified parked keys-parked "
        "blocked behind topic-paused pending untried not-installed first-password unhandled "
        "out-of-connections unknown"
    ),
    "bad": (
        "dead failed failing down hung breaker-open breaker-probing no-handler no-consumer lost store-lost ownerless "
        "broken refused revoked exited crashed gone error nowhere deactivated does-not-answer"
    ),
    "act": "granted changed acknowledged revealed",
    "info": "queued settling new leased in-flight duplicate deduplicated",
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words.split()}


def tone_of(state: str, feature: str = "") -> str:
    """``ok``, ``warn``, ``bad``, ``act``, ``info``, or ``neutral`` for a word nobody gave a meaning.

    What ``feature`` declares of its states goes before what the word means in general, and that before what it means to
    the first feature that declares it.
    """
    word = _spelt(state)
    declared = _declared()
    own = declared.get(feature, {}) if feature else {}
    return own.get(word) or _TONE_OF.get(word) or declared[""].get(word, "neutral")


@cache
def _declared() -> Mapping[str, Mapping[str, str]]:
    """The words of each feature by its name; under none, those of all, the first that declares one before others."""
    found: dict[str, dict[str, str]] = {"": {}}
    for feature in features():
        own = found[feature.name] = {_spelt(word): tone for word, tone in feature.tones.items()}
        found[""] = {**own, **found[""]}
    return found


def _spelt(state: str) -> str:
    return state.strip().lower().replace(" ", "-").replace("_", "-")
