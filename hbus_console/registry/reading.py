"""What reads topics beside their subscriptions: a topic that moves to another transport waits for it as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class TopicReader:
    """One of them. It is asked outside of transactions, and may ask stores."""

    name: str
    #: As a sentence calls it: ``the archive``.
    words: str
    #: Who does its reading, and what to do if that is not wanted; whole sentences.
    advice: str
    #: ``prepare(topic, to)``: have it miss nothing that is published to the transport ``to`` from here on. Harmless to
    #: repeat, and for a topic that it does not read. Raises ``Unavailable``.
    prepare: Callable[[str, str], None]
    #: ``unread(topic, carrier)``: how many messages a transport holds that it has not read; ``None``: nobody can tell
    #: just now. 0 for a topic that it does not read.
    unread: Callable[[str, str], int | None]
    #: Whether it reads that topic now. Asked in the transaction of its deletion, of the database alone.
    reads: Callable[[str], bool]
    #: ``leave(topic, carrier, read)``: what a transport holds of it is about to be removed for good, and nobody
    #: publishes there any more; whether it was read when that was decided. What it gives is called once that is done;
    #: not where that was killed on the way. Neither raises.
    leave: Callable[[str, str, bool], Callable[[], None]]
