"""The kit's promises by number, and the two marks that tie its tests to them.

``K1`` to ``K16`` are the universal tests of Watermill in our own words, mended where they did not test what they say:
K10 closes the publisher before it reads, K15 restarts the store. The rest is what other kits test, and what none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from engine.bus.transport import Capabilities

PROMISES = {
    "K1": "What was published before anybody subscribed arrives, whole",
    "K2": "Many publishers and many consumers lose and double nothing",
    "K3": "Many topics at once are each complete",
    "K4": "What failed comes again; everything else comes once",
    "K5": "The next of a key waits until the one before it is settled",
    "K6": "Consumers that come and go have all of it together; closing twice is fine",
    "K7": "Consumers opened and closed at once leave a topic that works",
    "K8": "Consumers that fail again and again keep nothing from one that works",
    "K9": "Each key keeps its order over many consumers",
    "K10": "What a producer had confirmed can be read after it was closed",
    "K11": "Topics do not leak into each other",
    "K12": "A handler is told when its delivery is no longer its own",
    "K13": "Closing ends a wait, and the next consumer gets everything",
    "K14": "A late group can read what was there before it, generation after generation",
    "K15": "A store restarted twice in the middle loses nothing that was confirmed",
    "K16": "Every group gets every message",
    "K17": "What a killed process held comes once more, to another, within its lease",
    "K18": "A handler slower than its lease keeps its delivery while its heart beats",
    "K19": "Attempts are counted, with their history",
    "K20": "A message that fails to the last is one dead letter with its whole story",
    "K21": "A dead letter that could not be kept leaves its message unsettled",
    "K22": "A letter redriven from many hands at once is one new message that names its cause",
    "K23": "A delayed message is never early, and comes once though its mover dies",
    "K24": "What expired is settled unhandled",
    "K25": "Higher priorities overtake a backlog",
    "K26": "One idempotency key: one message inside its window, another after it",
    "K27": "A message delivered twice is handled once behind an inbox",
    "K28": "A failed head blocks its key, and nobody else; a rebalance keeps the order",
    "K29": "A group can be placed at an id or an instant, and touches no other",
    "K30": "A pause stops new deliveries and keeps what is in flight",
    "K31": "Lag is what was published and not settled, at every moment",
    "K32": "A drain finishes what runs, hands back what waits, and ends by its deadline",
    "K33": "Bytes arrive as they were sent: none, any, many; headers in any script",
    "K34": "A publish whose answer was lost is unknown, and safe to repeat under its key",
    "K35": "A group deleted under a live consumer is loud, and healed",
    "K36": "Concurrency is raised and lowered while messages are handled",
    "K37": "What a handler does to headers is gone at the next attempt",
    "K38": "Two consumers of one name do not own each other's messages",
    "K39": "A store and a consumer killed at one moment lose nothing that was confirmed",
    "K40": "An answer that was lost, of any verb, loses nothing, does nothing twice, and keeps each key's order",
    "K41": "A decision about a parked key ends the parking that it was made about, and no later one",
    "K42": "What goes back while a read is under way is not overtaken by what that read brings",
    "K43": "A stretch of a log is the same however often it is read, and what retention took of it is counted",
    "K44": "What is written in bulk is stored once, whoever tries again, and each key in its order",
    "K45": "A dead letter outlives its group and its topic, until somebody has taken it over",
    "K46": "What was closed or deleted stores nothing until it is made anew, whoever had begun to publish",
}

#: What a test may ask for, and how to see that a transport has it; else a field of :class:`Capabilities`.
_SPECIAL: dict[str, Callable[[Capabilities], bool]] = {
    "empty messages": lambda has: has.min_bytes == 0,
}

Marked = TypeVar("Marked")


def keeps(*numbers: str) -> Callable[[Marked], Marked]:
    """The test, or every test of the class, holds the transport to these promises."""
    unknown = [number for number in numbers if number not in PROMISES]
    if unknown:
        raise ValueError(f"no such promise: {', '.join(unknown)}")
    return _on_each_test(pytest.mark.keeps(*numbers))


def needs(*capabilities: str) -> Callable[[Marked], Marked]:
    """It asks for what not every transport declares; without it the test is skipped as ``not declared: …``."""
    for name in capabilities:
        if name not in _SPECIAL and name not in Capabilities.__dataclass_fields__:
            raise ValueError(f"no such capability: {name}")
    return _on_each_test(pytest.mark.needs(*capabilities))


def _on_each_test(mark: pytest.MarkDecorator) -> Callable[[Marked], Marked]:
    def apply(target: Marked) -> Marked:
        # pytest hands a base class's marks to every test of a class made of several; the kit is put together so.
        tests = vars(target).items() if isinstance(target, type) else [("test_", target)]
        for name, test in tests:
            if name.startswith("test_"):
                mark(test)
        return target

    return apply


def lacking(has: Capabilities, names: Iterable[str]) -> list[str]:
    """Which of ``names`` the transport does not declare."""
    return [name for name in names if not _SPECIAL.get(name, lambda has, name=name: bool(getattr(has, name)))(has)]
