"""The wire to the store: one pool, single commands, and errors that say whether the command may have run.

Works on redis-py's connections rather than its client: the client hides the moment of sending, and a publish must
know it to tell ``failed`` from ``unknown``. Nothing is ever repeated behind the caller's back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hiredis import pack_command
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, parse_url
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from engine.bus.transports.redis_stream.scripts import Script
from engine.core.errors import ConfigurationError, Unavailable

#: Seconds to wait for an answer to a command that does not block.
ANSWER_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0
#: Seconds added to a blocking read before its connection counts as dead.
BLOCK_MARGIN_S = 5.0

Arg = str | bytes | int | float


class NotSent(Unavailable):
    """The command did not reach the store: it certainly did not run."""


class AnswerLost(Unavailable):
    """The command was sent and the answer did not come: it may have run."""


class Refused(Unavailable):
    """The store answered with an error; :attr:`words` are its own."""

    def __init__(self, address: str, words: str) -> None:
        # The first sentence tells what; Valkey's further ones advise whoever has a shell on it.
        said = words.partition(". ")[0].rstrip(".")
        super().__init__(f"The store at {address} refused: {said}.", remedy=_remedy(words))
        self.words = words


#: redis-py takes these words off the errors that it has classes for.
_CODES: dict[type[Exception], str] = {
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    BusyLoadingError: "LOADING",
    NoPermissionError: "NOPERM",
}


def _words(error: Exception) -> str:
    """The error as the store sent it."""
    text = str(error)
    code = _CODES.get(type(error), "")
    return text if text.startswith(code) else f"{code} {text}"


def _remedy(words: str) -> str:
    for code, remedy in (
        ("OOM", "It is full: raise its memory limit, or let retention remove what is settled."),
        ("MISCONF", "It cannot write to its disk: make room there and look at its log."),
        ("READONLY", "This is a replica: point REDIS_URL at the primary."),
        ("LOADING", "It is still reading its data: try again shortly."),
        ("NOPERM", "Give this user the commands and keys of hbus."),
    ):
        if code in words:
            return remedy
    return "Look at the store's log."


def _options(url: str) -> dict[str, Any]:
    try:
        options: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError:
        # Not chained: what cannot be parsed may quote the password.
        raise ConfigurationError(
            "The store's address is not a Redis URL.",
            remedy="Write redis://user:password@host:port/db, with the password percent-encoded.",
            field="REDIS_URL",
        ) from None
    return options


class Link:
    """Commands to one store. Thread-safe; each command has a connection of its own while it runs."""

    def __init__(self, url: str, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        options = _options(url)
        self.address = str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")
        self._pool = ConnectionPool(
            **{
                **options,
                "socket_timeout": answer_timeout_s,
                "socket_connect_timeout": CONNECT_TIMEOUT_S,
                "socket_keepalive": True,
                # RESP2 keeps the pool's check for connections that the server has closed.
                "protocol": 2,
                "retry": Retry(NoBackoff(), 0),
                "decode_responses": False,
            }
        )

    def __repr__(self) -> str:
        return f"Link({self.address})"

    def command(self, *args: Arg) -> Any:
        """Run one command. Raises :class:`NotSent`, :class:`AnswerLost` or :class:`Refused`."""
        return self._exchange(args)

    def run(self, script: Script, keys: Iterable[str], args: Iterable[Arg]) -> Any:
        """Run a script by its digest, or by its text where the server does not know it (yet, or any more)."""
        keys = tuple(keys)
        rest = (len(keys), *keys, *args)
        try:
            return self._exchange(("EVALSHA", script.sha, *rest))
        except NoScriptError:
            return self.command("EVAL", script.text, *rest)

    def close(self) -> None:
        """Close the connections that nobody uses now. Idempotent; a later command opens one again."""
        self._pool.disconnect(inuse_connections=False)

    @contextmanager
    def conversation(self) -> Iterator[Conversation]:
        """A connection for several commands, each sent before the one ahead of it need be answered.

        Raises as :meth:`command`. A connection that still owes answers at the end is closed, never reused.
        """
        pool = self._pool
        try:
            connection = pool.get_connection()
        except (BusyLoadingError, AuthenticationError, ResponseError) as error:
            raise Refused(self.address, _words(error)) from error
        except (RedisError, OSError) as error:
            raise _not_sent(self.address, error) from error
        made = Conversation(connection, self.address)
        try:
            yield made
        finally:
            if made.owed:
                connection.disconnect()  # type: ignore[no-untyped-call]
            pool.release(connection)

    def _exchange(self, args: tuple[Arg, ...]) -> Any:
        with self.conversation() as conversation:
            conversation.send(args)
            return conversation.answer()


class Conversation:
    """Commands and their answers on one connection, in order. Used by one thread."""

    __slots__ = ("_address", "_connection", "owed")

    def __init__(self, connection: Any, address: str) -> None:
        self._connection = connection
        self._address = address
        #: How many answers are still to come.
        self.owed = 0

    def send(self, args: tuple[Arg, ...]) -> None:
        """Send one command; raises :class:`NotSent` when it certainly will not run."""
        try:
            # Packed here: the client would look at each of a batch's hundreds of bodies in Python first.
            self._connection.send_packed_command([pack_command(args)])  # type: ignore[arg-type]
        except (ConnectionError, TimeoutError) as error:
            # Not all of it left this machine, and the store runs no half commands.
            raise _not_sent(self._address, error) from error
        self.owed += 1

    def answer(self) -> Any:
        """The answer to the oldest command; raises :class:`AnswerLost` or :class:`Refused`, and ``NoScriptError``."""
        try:
            found = self._connection.read_response()
        except BusyLoadingError as error:
            self.owed -= 1
            raise Refused(self._address, _words(error)) from error
        except (ConnectionError, TimeoutError) as error:
            raise AnswerLost(
                f"The connection to the store at {self._address} broke before its answer came: {error}.",
                remedy="Make sure that the store runs and can be reached; then try again.",
            ) from error
        except NoScriptError:
            self.owed -= 1
            raise
        except ResponseError as error:
            self.owed -= 1
            raise Refused(self._address, _words(error)) from error
        self.owed -= 1
        return found


def _not_sent(address: str, error: Exception) -> NotSent:
    return NotSent(
        f"The store at {address} cannot be reached: {error}.",
        remedy="Make sure that it runs and that REDIS_URL names it.",
    )
