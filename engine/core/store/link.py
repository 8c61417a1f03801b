"""The wire to the store: single commands, scripts, and errors that say whether a command may have run.

Works on redis-py's connections rather than its client: the client hides the moment of sending, and a publish must
know it to tell ``failed`` from ``unknown``. Nothing is repeated behind the caller's back but what the store said it
did not run, because another of its nodes has the key.
"""

from __future__ import annotations

import os
import select
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hiredis import pack_command
from redis.connection import ConnectionPool
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from engine.core.errors import Unavailable
from engine.core.scripts import Script, wait_for
from engine.core.store.address import StoreAddress
from engine.core.store.client import open_nodes
from engine.core.store.conditions import out_of_connections
from engine.core.store.failures import Elsewhere, Refused, answer_lost, not_sent, words_sent
from engine.core.store.nodes import StoreNodes
from engine.core.store.slots import key_of

#: Seconds added to a blocking read before its connection counts as dead.
BLOCK_MARGIN_S = 5.0
#: How often one command follows the word of a node that another has the key.
REDIRECTS = 5
#: How many commands are sent before the first of them need be answered.
AT_ONCE = 500

Arg = str | bytes | int | float


class _Lender:
    """Lends the connections of one pool. Thread-safe; a fork's child begins with none.

    redis-py's pool locks, measures and checks for several microseconds at each lending. A connection that came back
    sound is therefore kept here, and goes back to the pool as soon as there is any doubt about it.
    """

    __slots__ = ("_kept", "_pid", "pool")

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self._kept: deque[tuple[Any, select.poll]] = deque()
        self._pid = os.getpid()

    def take(self) -> tuple[Any, select.poll]:
        """A connection, and what tells whether it has something unasked to say. Raises redis-py's errors."""
        if self._pid != os.getpid():
            self._kept, self._pid = deque(), os.getpid()
        pool = self.pool
        try:
            connection, watch = lent = self._kept.pop()
        except IndexError:
            pass
        else:
            # Behind Sentinels the pool owns only what leads to the primary that it knows of. Whatever there is to be
            # read between two commands is the server's good-bye.
            if pool.owns_connection(connection) and not watch.poll(0):
                return lent
            pool.release(connection)
        connection, watch = pool.get_connection(), select.poll()
        # There is no other way to its socket, and redis-py's own question costs more than an answer.
        watch.register(connection._sock, select.POLLIN)  # type: ignore[arg-type]
        return connection, watch

    def take_back(self, lent: tuple[Any, select.poll], *, sound: bool) -> None:
        """One that still owes answers is not sound: it is closed, never reused."""
        if sound:
            self._kept.append(lent)
        else:
            lent[0].disconnect()
            self.pool.release(lent[0])

    def empty(self) -> None:
        """Hand all that are kept to the pool, which does with them what is due."""
        with suppress(IndexError):
            while True:
                self.pool.release(self._kept.pop()[0])


class Link:
    """Commands to one store. Thread-safe; each command has a connection of its own while it runs."""

    def __init__(self, nodes: StoreNodes) -> None:
        self.address = nodes.label
        self._nodes = nodes
        self._lenders: dict[ConnectionPool, _Lender] = {}
        #: Where one primary has every key.
        self._lender = None if nodes.only is None else self._lender_of(nodes.only)

    @classmethod
    def open(cls, url: str, *, field: str = "REDIS_URL") -> Link:
        """Connects on first use.

        Raises ``ConfigurationError`` for ``field`` when ``url`` is no address, or names files that are none.
        """
        address = StoreAddress.parse(url, field=field)
        address.check_files(field=field)
        return cls(open_nodes(address))

    def __repr__(self) -> str:
        return f"Link({self.address})"

    def patient(self, wait_s: float) -> Link:
        """A link of its own to the same store for commands that block up to ``wait_s`` seconds."""
        return Link(self._nodes.sibling(wait_s + BLOCK_MARGIN_S))

    def command(self, *args: Arg, at: str = "") -> Any:
        """Run one command; one about no key runs at the node that has the key ``at``.

        Raises :class:`NotSent`, :class:`AnswerLost` or :class:`Refused`.
        """
        return self._exchange(at or key_of(args), args)

    def each(self, calls: Sequence[tuple[Arg, ...]]) -> list[Any]:
        """The answers to many commands, each asked where its key is, :data:`AT_ONCE` in one round trip.

        A command that was refused has its :class:`Refused` in its place, one whose script its node does not know its
        ``NoScriptError``. Raises :class:`NotSent` or :class:`AnswerLost`, and then nobody knows which have run: for
        questions, and for what may be done again.
        """
        answers: list[Any] = [None] * len(calls)
        by_lender: dict[_Lender, list[int]] = defaultdict(list)
        for index, args in enumerate(calls):
            by_lender[self._lender or self._lender_for(key_of(args))].append(index)
        moved: list[int] = []
        for lender, indexes in by_lender.items():
            for start in range(0, len(indexes), AT_ONCE):
                moved += self._ask(lender, calls, indexes[start : start + AT_ONCE], answers)
        for index in moved:
            try:
                answers[index] = self._exchange(key_of(calls[index]), calls[index])
            except (Refused, NoScriptError) as error:
                answers[index] = error
        return answers

    def _ask(
        self, lender: _Lender, calls: Sequence[tuple[Arg, ...]], chosen: list[int], answers: list[Any]
    ) -> list[int]:
        """Fill in the answers to those ``chosen``; those that another node has to be asked."""
        moved = []
        conversation = self._begin(lender)
        try:
            conversation.send_all([calls[index] for index in chosen])
            for index in chosen:
                try:
                    answers[index] = conversation.answer()
                except Elsewhere:
                    moved.append(index)
                except (Refused, NoScriptError) as error:
                    answers[index] = error
        finally:
            conversation.end()
        return moved

    def run_each(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Any]:
        """The answers of a script to many calls. As :meth:`each`; it may run twice for one of them."""
        answers = self.each([("EVALSHA", script.sha, len(keys), *keys, *args) for keys, args in calls])
        for index, answer in enumerate(answers):
            if isinstance(answer, NoScriptError):
                try:
                    answers[index] = self.run(script, *calls[index])
                except Refused as error:
                    answers[index] = error
        return answers

    def run(self, script: Script, keys: Iterable[str], args: Iterable[Arg]) -> Any:
        """Run a script by its digest, or by its text where the server does not know it (yet, or any more)."""
        keys = tuple(keys)
        rest = (len(keys), *keys, *args)
        try:
            return self._exchange(keys[0], ("EVALSHA", script.sha, *rest))
        except NoScriptError:
            return self._exchange(keys[0], ("EVAL", script.text, *rest))

    def run_replicated(
        self, script: Script, keys: Iterable[str], args: Iterable[Arg], replicas: int
    ) -> tuple[Any, int]:
        """Run a script; its reply, and how many replicas had what it wrote in time.

        Waits for ``replicas`` of them. Raises as :meth:`command`; :class:`AnswerLost` also when it certainly ran, and
        where nobody could be asked to wait any more.
        """
        keys = tuple(keys)
        call = ("EVAL", script.text, len(keys), *keys, *args)
        for _ in range(REDIRECTS):
            with self.conversation(keys[0]) as conversation:
                conversation.send(call)
                conversation.ask_replicas(replicas)
                try:
                    return conversation.answer(), conversation.replicas_reached()
                except Elsewhere as error:
                    elsewhere = error
        raise elsewhere

    def ping(self) -> None:
        """Ask each primary. Raises as :meth:`command`."""
        try:
            pools = self._nodes.primaries()
        except (RedisError, OSError) as error:
            raise self._no_connection(error) from error
        for pool in pools:
            self._exchange_at(pool, ("PING",))

    def refused(self, words: str) -> Refused:
        """What to say of an error that a script has met and handed on."""
        # Redis 6.2 puts the name and the line of the script before the words.
        if "READONLY" in words:
            self.heed(ReadOnlyError(words), None)
        return Refused(self.address, words)

    def heed(self, error: Exception, pool: ConnectionPool | None) -> None:
        """Learn from an error that ``pool`` gave."""
        # First, for the nodes may close all connections that nobody uses now.
        self._empty()
        self._nodes.heed(error, pool)

    def close(self) -> None:
        """Close the connections that nobody uses now. Idempotent; a later command opens one again."""
        self._empty()
        self._nodes.close()

    def _empty(self) -> None:
        for lender in list(self._lenders.values()):
            lender.empty()

    @contextmanager
    def conversation(self, key: str | bytes) -> Iterator[Conversation]:
        """A connection, to who has ``key``, for commands each sent before the one ahead of it need be answered.

        Raises as :meth:`command`. A connection that still owes answers at the end is closed, never reused.
        """
        made = self._begin(self._lender or self._lender_for(key))
        try:
            yield made
        finally:
            made.end()

    def _begin(self, lender: _Lender) -> Conversation:
        try:
            lent = lender.take()
        except (RedisError, OSError) as error:
            # Where only connections are short nothing is wrong with the store, and nothing to learn about it.
            if not out_of_connections(error):
                self.heed(error, lender.pool)
            raise self._no_connection(error) from error
        return Conversation(self, lender, lent)

    def _lender_for(self, key: str | bytes) -> _Lender:
        try:
            return self._lender_of(self._nodes.pool_for(key))
        except (RedisError, OSError) as error:
            raise self._no_connection(error) from error

    def _lender_of(self, pool: ConnectionPool) -> _Lender:
        # Of two threads that make one, both go on with the one that came first.
        return self._lenders.get(pool) or self._lenders.setdefault(pool, _Lender(pool))

    def _exchange(self, key: str | bytes, args: tuple[Arg, ...]) -> Any:
        for _ in range(REDIRECTS):
            # Not as a context: every message goes through here.
            conversation = self._begin(self._lender or self._lender_for(key))
            try:
                conversation.send(args)
                return conversation.answer()
            except Elsewhere as error:
                elsewhere = error
            finally:
                conversation.end()
            if elsewhere.asking is not None:
                return self._exchange_at(elsewhere.asking, ("ASKING",), args)
        raise elsewhere

    def _exchange_at(self, pool: ConnectionPool, *commands: tuple[Arg, ...]) -> Any:
        """The answer to the last of some commands."""
        conversation = self._begin(self._lender_of(pool))
        try:
            for args in commands:
                conversation.send(args)
            return [conversation.answer() for _ in commands][-1]
        finally:
            conversation.end()

    def elsewhere(self, error: MovedError | AskError) -> Elsewhere:
        """What to say of a node's word that another has the key."""
        return Elsewhere(self.address, self._nodes.asked(error))

    def _no_connection(self, error: Exception) -> Unavailable:
        if isinstance(error, (BusyLoadingError, AuthenticationError, ResponseError)):
            return Refused(self.address, words_sent(error))
        return not_sent(self.address, error)


class Conversation:
    """Commands and their answers on one connection, in order. Used by one thread."""

    __slots__ = ("_connection", "_lender", "_lent", "_link", "_owed")

    def __init__(self, link: Link, lender: _Lender, lent: tuple[Any, select.poll]) -> None:
        self._link = link
        self._lender = lender
        self._lent = lent
        self._connection = lent[0]
        #: How many answers are still to come.
        self._owed = 0

    def send(self, args: tuple[Arg, ...]) -> None:
        """Send one command; raises :class:`NotSent` when it certainly will not run."""
        self._owed += 1
        # Packed here: the client would look at each of a batch's hundreds of bodies in Python first.
        self._put(pack_command(args))  # type: ignore[arg-type]

    def send_all(self, commands: Sequence[tuple[Arg, ...]]) -> None:
        """Send many in one go; raises :class:`NotSent` when the last of them certainly will not run."""
        self._owed += len(commands)
        self._put(b"".join(pack_command(args) for args in commands))  # type: ignore[arg-type]

    def _put(self, packed: bytes, broken: Callable[[str, Exception], Unavailable] = not_sent) -> None:
        try:
            self._connection.send_packed_command([packed])
        except (ConnectionError, TimeoutError) as error:
            self._link.heed(error, self._lender.pool)
            # Not all of it left this machine, and the store runs no half commands.
            raise broken(self._link.address, error) from error

    def answer(self) -> Any:
        """The answer to the oldest command; raises :class:`AnswerLost`, :class:`Elsewhere` or :class:`Refused`, and
        ``NoScriptError``."""
        try:
            found = self._connection.read_response()
        except BusyLoadingError as error:
            self._owed -= 1
            raise Refused(self._link.address, words_sent(error)) from error
        except (ConnectionError, TimeoutError) as error:
            self._link.heed(error, self._lender.pool)
            raise answer_lost(self._link.address, error) from error
        except NoScriptError:
            self._owed -= 1
            raise
        except (MovedError, AskError) as error:
            self._owed -= 1
            self._link.heed(error, self._lender.pool)
            raise self._link.elsewhere(error) from error
        except ResponseError as error:
            self._owed -= 1
            self._link.heed(error, self._lender.pool)
            raise Refused(self._link.address, words_sent(error)) from error
        self._owed -= 1
        return found

    def end(self) -> None:
        """Give the connection back."""
        self._lender.take_back(self._lent, sound=not self._owed)

    def ask_replicas(self, replicas: int) -> None:
        """Send :func:`wait_for`. Raises :class:`AnswerLost`: whatever was sent before it may run all the same."""
        self._owed += 1
        self._put(pack_command(wait_for(replicas)), answer_lost)  # type: ignore[arg-type]

    def replicas_reached(self) -> int:
        """The answer to :meth:`ask_replicas`; 0 where the store refuses to wait."""
        try:
            return int(self.answer())
        except Refused:
            return 0
