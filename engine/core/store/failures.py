"""What becomes of a command that was not answered well: it did not run, it may have run, or the store refused it."""

from __future__ import annotations

import re
from typing import Any

from redis.connection import ConnectionPool
from redis.exceptions import (
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)

from engine.core.error_text import words_of
from engine.core.errors import OutOfConnections, Unavailable
from engine.core.store.conditions import condition_of, out_of_connections
from engine.core.store.tls import tls_trouble


class NotSent(Unavailable):
    """The command did not reach the store: it certainly did not run."""

    untouched = True


class NoConnectionLeft(NotSent, OutOfConnections):
    """There was no connection to send the command by."""


class Elsewhere(NotSent):
    """Another node has the key; with :attr:`asking`, for this one command after ASKING there."""

    def __init__(self, address: str, asking: ConnectionPool | None) -> None:
        super().__init__(
            f"The nodes of the store at {address} do not agree on who has the key.", remedy="It is tried again."
        )
        self.asking = asking


class AnswerLost(Unavailable):
    """The command was sent and the answer did not come: it may have run."""


#: How the store refuses a command, and a script at its first one that writes: it looks once, and what it sees holds for
#: the whole script. With other words a script may have stopped half-way.
BEFORE_ALL = ("OOM", "MISCONF", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS")


class Refused(Unavailable):
    """The store answered with an error; :attr:`words` are its own."""

    def __init__(self, address: str, words: str) -> None:
        what, remedy = refusal(words)
        super().__init__(f"The store at {address} refused: {what}.", remedy=remedy)
        self.words = words
        self.untouched = what.startswith(BEFORE_ALL)


def not_refused(reply: Any) -> Any:
    """One of many answers, as it is; raises what stands in its place where its command was refused."""
    if isinstance(reply, Refused):
        raise reply
    return reply


#: What the store says of a stream that takes nothing more, for ever.
EXHAUSTED = "exhausted the last possible ID"
#: redis-py takes these words off the errors that it has classes for.
_CODES: dict[type[Exception], str] = {
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    BusyLoadingError: "LOADING",
    NoPermissionError: "NOPERM",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    ClusterCrossSlotError: "CROSSSLOT",
    TryAgainError: "TRYAGAIN",
}


def words_sent(error: Exception) -> str:
    """The error as the store sent it."""
    text = words_of(error)
    code = _CODES.get(type(error), "")
    return text if text.startswith(code) else f"{code} {text}"


#: What Redis up to 6.2 puts before the error of a command in a script: where the script stood.
_IN_A_SCRIPT = re.compile(r"Error running script \(call to \w+\): (?:@\w+: ?\d+: ?)*-?|^(?:@\w+: ?\d+: ?)+-?")


def refusal(words: str) -> tuple[str, str]:
    """What an error of the store says, without its end, and the remedy."""
    # The first sentence tells what; Valkey's further ones advise whoever has a shell on it.
    return _IN_A_SCRIPT.sub("", words.strip()).partition(". ")[0].rstrip("."), _remedy(words)


def _remedy(words: str) -> str:
    for code, remedy in (
        ("OOM", "It is full: raise its memory limit, or let retention remove what is settled."),
        ("MISCONF", "It cannot write to its disk: make room there and look at its log."),
        ("READONLY", "This is a replica: point REDIS_URL at the primary."),
        ("CLUSTERDOWN", "A part of the cluster has no primary now: it is tried again once one was chosen."),
        ("TRYAGAIN", "Its keys are on their way to another node: it is tried again."),
        ("NOREPLICAS", "Fewer replicas follow it than its min-replicas-to-write asks for: start them."),
        ("LOADING", "It is still reading its data: try again shortly."),
        (EXHAUSTED, "An entry of the greatest id there is was written into this stream."),
        ("NOPERM", "Give this user the commands and keys of hbus."),
    ):
        if code in words:
            return remedy
    return "Look at the store's log."


def not_sent(address: str, error: Exception) -> NotSent:
    if trouble := tls_trouble(error):
        return NotSent(f"The store at {address} cannot be used: {trouble.what}.", remedy=trouble.remedy)
    if condition := condition_of(error):
        kind = NoConnectionLeft if out_of_connections(error) else NotSent
        return kind(f"The store at {address} {condition.what}.", remedy=condition.remedy)
    return NotSent(
        f"The store at {address} cannot be reached: {_said(error)}.",
        remedy="Make sure that it runs and that REDIS_URL names it.",
    )


def answer_lost(address: str, error: Exception) -> AnswerLost:
    return AnswerLost(
        f"The connection to the store at {address} broke before its answer came: {_said(error)}.",
        remedy="Make sure that the store runs and can be reached; then try again.",
    )


def _said(error: Exception) -> str:
    return words_of(error).rstrip(".")
