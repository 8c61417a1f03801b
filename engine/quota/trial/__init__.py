"""Trying a limit out before anybody is held to it: traffic of a shape is played against the real engine, in no time."""

from __future__ import annotations

from engine.quota.trial.playing import MOST_CALLS, MOST_NODES, Trial, TrialPart, try_out
from engine.quota.trial.traffic import Shape, Traffic

__all__ = ["MOST_CALLS", "MOST_NODES", "Shape", "Traffic", "Trial", "TrialPart", "try_out"]
