"""What redis-py raises where the store did not do what it was asked for, as one error: ``Unavailable``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.exceptions import AuthenticationError, BusyLoadingError, ClusterDownError, ReadOnlyError, TryAgainError
from redis.sentinel import MasterNotFoundError

from engine.core.error_text import words_of
from engine.core.errors import OutOfConnections, Unavailable
from engine.core.store.conditions import condition_of, out_of_connections
from engine.core.store.failures import AnswerLost, refusal, words_sent

#: The store cannot be reached, answers too late, is still loading, or has no primary for the key at this moment.
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError, ClusterDownError, ReadOnlyError, TryAgainError)
#: Of these the answers that the store gave, or that Sentinels did before it was asked.
_SAID = (AuthenticationError, BusyLoadingError, ClusterDownError, MasterNotFoundError, ReadOnlyError, TryAgainError)
#: redis-py's own words of a connection that did not come about, and of one that did not take all it was given.
_NOT_CONNECTED = re.compile(r"connecting to", re.IGNORECASE)
_NOT_ALL_SENT = re.compile(r"writing to socket", re.IGNORECASE)
#: It is there and does not do it: full, without a disk, without its replicas, or by the rights of its user.
_REFUSALS = re.compile(r"\b(OOM|MISCONF|NOREPLICAS|NOPERM|MASTERDOWN)\b")


@contextmanager
def answered(*, several: bool = False) -> Iterator[None]:
    """Raises ``Unavailable`` for whatever the store did not do; what is a mistake of ours stays what it is.

    Where it may have been done, as far as redis-py shows, that is :class:`~engine.core.store.failures.AnswerLost`: of
    ``several`` commands the first may run though the last was not sent.
    """
    try:
        yield
    except redis.RedisError as error:
        if isinstance(error, UNREACHABLE):
            raise _away(error, several=several) from error
        if _REFUSALS.search(words_sent(error)):
            what, remedy = refusal(words_sent(error))
            raise Unavailable(f"The store refused: {what}.", remedy=remedy) from error
        raise


def _away(error: Exception, *, several: bool) -> Unavailable:
    if out_of_connections(error) and (condition := condition_of(error)):
        return OutOfConnections(f"The store {condition.what}.", remedy=condition.remedy)
    kind = AnswerLost if _may_have_run(error, several=several) else Unavailable
    return kind(f"The store cannot be reached: {words_of(error)}.", remedy="It is tried again.")


def _may_have_run(error: Exception, *, several: bool) -> bool:
    """Whatever is not known to have failed before the command was sent, or to be the store's own word."""
    if isinstance(error, _SAID) or out_of_connections(error):
        return False
    words = words_of(error)
    return not _NOT_CONNECTED.search(words) and (several or not _NOT_ALL_SENT.search(words))
