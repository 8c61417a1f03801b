"""nsqd sends a message again on the same connection: a consumer that stood still reads both at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from engine.bus.transports import nsq
from engine.core.scripts import ScriptFolder

ID, DIGEST = "18a8963acd44d000", "abcd"
#: Of one consumer, with room for ten.
LEASE = ("token", "consumer", 10, 5_000)


@pytest.mark.parametrize("calls", [(2,), (1, 1)], ids=["in one call", "in two calls"])
def test_both_are_finished_where_another_had_it_from_its_copy(
    redis_url: str, prefix: str, calls: tuple[int, ...]
) -> None:
    client = redis.Redis.from_url(redis_url)
    names = ("state", "held", "kept", "bodies", "tries", "stale", "twice", "again")
    keys = [f"{prefix}:{{lease}}:{name}" for name in names]
    client.hset(keys[0], "generation", "1")
    # Its copy was handed out, once, for all that nsqd had up to then.
    client.hset(keys[7], DIGEST, "1 ffffffffffffffff")
    scripts = ScriptFolder(client, Path(nsq.__file__).parent / "lua")
    answers = [
        answer
        for number in calls
        for answer in scripts.call("lease", keys, [*LEASE, number, *[ID] * number, *[DIGEST] * number])[3]
    ]
    assert answers == [1, 1]
    client.close()
