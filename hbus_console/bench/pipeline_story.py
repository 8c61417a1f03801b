"""What happened to millions of bookings, number by number: the same ever and anywhere, with faults at known counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

TOPIC, SOURCE, SUBSCRIPTION = "booking.created", "/hotel/bookings", "availability"
#: The parts of the topic; a key is always in the same one.
LOGS = ("p0", "p1")
#: 2026-10-05T00:00:00Z, and over how many days they are spread.
START_MS, DAYS = 1_791_158_400_000, 8
DAY_MS = 86_400_000
#: Messages of each key.
OF_A_KEY = 50
#: So many messages later one that is stored twice comes again.
LATER = 25
#: What is planted, each the same number of times.
MISSING, UNTOLD, DUPLICATE, SWAPPED, NO_OUTCOME, DEAD, RETRIED, NEVER = range(8)
FAULTS = 8


@dataclass(frozen=True)
class PipelineStory:
    """Of ``events`` messages, and of those that come after: each has a number, and a place in which it is stored."""

    events: int

    @property
    def keys(self) -> int:
        return self.events // OF_A_KEY

    @property
    def planted(self) -> int:
        """How often each fault is."""
        return max(3, self.events // 2_000)

    @property
    def end_ms(self) -> int:
        """Long after all of it, so that all of it is judged."""
        return START_MS + (DAYS + 2) * DAY_MS

    def expected(self) -> dict[str, int]:
        """What an audit is to find, and how often."""
        found = dict.fromkeys(("missing", "untold", "duplicate", "out_of_order", "no_outcome", "dead"), self.planted)
        # What is not in the lake leaves a gap, and so does what nobody ever published.
        return {**found, "retried": self.planted, "gap": 2 * self.planted}

    def stored_ms(self, places: Ints) -> Ints:
        return START_MS + places * (DAYS * DAY_MS) // self.events

    def key_of(self, numbers: Ints) -> Ints:
        """All keys come in turn, and in no order of theirs."""
        return numbers % self.keys * self._step % self.keys

    def sequence_of(self, numbers: Ints) -> Ints:
        return numbers // self.keys + 1

    def at(self, places: Ints) -> Ints:
        """The numbers of the messages that are stored there: some change places with the next one of their key."""
        here = self.faulty[SWAPPED]
        pairs = np.concatenate([here, here + self.keys])
        order = np.argsort(pairs)
        place = np.minimum(np.searchsorted(pairs, places, sorter=order), len(pairs) - 1)
        other = np.concatenate([here + self.keys, here])[order][place]
        return np.where(pairs[order][place] == places, other, places)

    def with_copies(self, low: int, high: int) -> tuple[Ints, Ints]:
        """The places from one to below another, in order, and the number that is in each; those of copies twice."""
        again = self.faulty[DUPLICATE]
        again = again[(again + LATER >= low) & (again + LATER < high)]
        places = np.arange(low, high)
        numbers = self.at(places)
        kept = ~self.has(numbers, MISSING, NEVER)
        all_places = np.concatenate([places[kept], again + LATER])
        order = np.argsort(all_places, kind="stable")
        return all_places[order], np.concatenate([numbers[kept], again])[order]

    def has(self, numbers: Ints, *faults: int) -> NDArray[np.bool_]:
        """Which of them have one of these faults."""
        return np.isin(numbers, np.concatenate([self.faulty[fault] for fault in faults]))

    @cached_property
    def faulty(self) -> list[Ints]:
        """By fault: the numbers of its messages. No two concern one key, and none its first messages or its last."""
        one = np.arange(FAULTS * self.planted)
        of_key = 2 + (one // FAULTS * 7 + one) % (OF_A_KEY - 8)
        numbers = of_key * self.keys + one * pow(self._step, -1, self.keys) % self.keys
        return [np.sort(numbers[fault::FAULTS]) for fault in range(FAULTS)]

    @cached_property
    def _step(self) -> int:
        return next(step for step in range(7_919, 8_919) if gcd(step, self.keys) == 1)
