"""What an audit looks for, as questions that a person asks: each is answered by some kinds of findings, or by none."""

from __future__ import annotations

from dataclasses import dataclass

from engine.pipeline.audit.findings import FindingKind


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    title: str
    kinds: tuple[FindingKind, ...]
    #: What is said where none of them was found; empty: nothing, for it is not looked for unless somebody asks.
    clean: str


CHECKS = (
    Check(
        "loss",
        "Loss",
        (FindingKind.MISSING, FindingKind.UNTOLD, FindingKind.LOSS, FindingKind.LOST, FindingKind.GAP),
        "what was published is archived, and no sequence has a gap",
    ),
    Check(
        "outcome",
        "Outcomes",
        (
            FindingKind.NO_OUTCOME,
            FindingKind.WAITING,
            FindingKind.DONE_UNTOLD,
            FindingKind.PASSED,
            FindingKind.ORPHAN,
        ),
        "every message has an outcome in every subscription",
    ),
    Check("dead", "Dead letters", (FindingKind.DEAD,), "no message became a dead letter"),
    Check(
        "order",
        "Order",
        (FindingKind.OUT_OF_ORDER, FindingKind.OUT_OF_TIME),
        "every key was stored in its order",
    ),
    Check(
        "duplicates",
        "Duplicates",
        (FindingKind.DUPLICATE, FindingKind.CONFLICTING, FindingKind.REPEATED, FindingKind.HANDLED_AGAIN),
        "every message was stored once and handled once",
    ),
    Check(
        "retries",
        "Retries",
        (FindingKind.RETRIED, FindingKind.INTERRUPTED),
        "every message was handled at the first attempt",
    ),
    Check("form", "Form", (FindingKind.MALFORMED,), "every message is an envelope that can be read"),
    Check("schemas", "Schemas", (FindingKind.UNFIT,), "no payload is known to break a schema"),
    Check("producers", "Producers", (FindingKind.FOREIGN,), ""),
    Check("clocks", "Clocks", (FindingKind.SKEWED,), "no producer's clock was more than five minutes off"),
)

#: The check that a kind of finding belongs to.
CHECK_OF = {kind: check for check in CHECKS for kind in check.kinds}
