"""redis-py's client on a cluster: each command at the primary that has its key.

A :class:`redis.Redis` like any other to who uses it: made without a connection, and no error of it is anything but a
``redis.RedisError``. (redis-py's own ``RedisCluster`` connects as it is made, raises errors outside of that family, and
hides when a command was sent, which a publish must know.)
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import redis
from redis.client import Pipeline
from redis.connection import ConnectionPool
from redis.exceptions import AskError, ClusterCrossSlotError

from engine.core.store.cluster import ClusterNodes
from engine.core.store.slots import key_of, slot_of

#: How often one command follows the word of a node that another has the key.
REDIRECTS = 5


class ClusterClient(redis.Redis):
    """Repeats a command only when the store said that it did not run."""

    def __init__(self, nodes: ClusterNodes) -> None:
        super().__init__(connection_pool=nodes.seed())
        self._nodes = nodes
        self._clients: dict[ConnectionPool, redis.Redis] = {}

    def __repr__(self) -> str:
        return f"ClusterClient({self._nodes.label})"

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if args[0] == "SCRIPT LOAD":
            # Whoever loads a script will call it by its digest, at the node of a key that is not named here.
            loaded = [client.execute_command(*args, **options) for client in self.each()]  # type: ignore[no-untyped-call]
            return loaded[0]
        key = key_of(args)
        for _ in range(REDIRECTS):
            pool = self._nodes.pool_for(key)
            try:
                return self.at(pool).execute_command(*args, **options)  # type: ignore[no-untyped-call]
            except (redis.RedisError, OSError) as error:
                if asked := self._nodes.asked(error):
                    return self._after_asking(asked, args, options)
                if not self._nodes.heed(error, pool):
                    raise
        raise redis.ConnectionError("the nodes of the cluster do not agree on who has the key")

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        return ClusterPipeline(self, self._nodes, transaction)

    def at(self, pool: ConnectionPool) -> redis.Redis:
        """A client of one node."""
        client = self._clients.get(pool)
        if client is None:
            client = self._clients[pool] = redis.Redis(connection_pool=pool)
        return client

    def each(self) -> list[redis.Redis]:
        """A client of each primary."""
        return [self.at(pool) for pool in self._nodes.primaries()]

    def close(self) -> None:
        self._nodes.close()

    def _after_asking(self, pool: ConnectionPool, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        pipe = self.at(pool).pipeline(transaction=False)
        pipe.execute_command("ASKING")  # type: ignore[no-untyped-call]
        pipe.execute_command(*args, **options)  # type: ignore[no-untyped-call]
        return pipe.execute()[-1]


class ClusterPipeline(Pipeline):
    """Commands by node, each node's in one go; a transaction must keep to one slot. Has no WATCH."""

    def __init__(self, client: ClusterClient, nodes: ClusterNodes, transaction: bool) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._client = client
        self._nodes = nodes
        self._atomic = transaction

    def watch(self, *names: Any) -> None:
        raise redis.DataError("A pipeline on a cluster has no WATCH: use a script.")

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack, self.command_stack = self.command_stack, []
        slots = {slot_of(key_of(args)) for args, _ in stack}
        if self._atomic and len(slots) > 1:
            raise ClusterCrossSlotError("The keys of a transaction must share a hash tag.")
        by_pool: dict[ConnectionPool, list[int]] = defaultdict(list)
        pool = None
        for index, (args, _) in enumerate(stack):
            # WAIT is about what was written just before it.
            if pool is None or args[0] != "WAIT":
                pool = self._nodes.pool_for(key_of(args))
            by_pool[pool].append(index)
        answers: list[Any] = [None] * len(stack)
        for pool, indexes in by_pool.items():
            found = self._at(pool, [stack[index] for index in indexes])
            for index, answer in zip(indexes, found, strict=True):
                answers[index] = answer
        if raise_on_error:
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        return answers

    def _at(self, pool: ConnectionPool, stack: list[Any]) -> list[Any]:
        pipe = self._client.at(pool).pipeline(transaction=self._atomic)
        pipe.command_stack = list(stack)
        try:
            answers: list[Any] = pipe.execute(raise_on_error=False)
        except (redis.RedisError, OSError) as error:
            self._nodes.heed(error, pool)
            raise
        for index, answer in enumerate(answers):
            if isinstance(answer, AskError) and not self._atomic:
                # It did not run: the key is elsewhere, or on its way.
                self._nodes.heed(answer, pool)
                args, options = stack[index]
                answers[index] = self._client.execute_command(*args, **options)
        return answers
