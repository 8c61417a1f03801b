"""The faults that are planted into what hbus promises, and the tests nearest to each, which must notice it.

A fault is a small change of one file, such as a tired evening makes. That each can still be planted is itself tested
(``tests/test_mutants.py``), so the plan grows no rot.
"""

from __future__ import annotations

from tests.mutants.cron_plan import CRON
from tests.mutants.mutant import Mutant

_STREAMS = "engine/bus/transports/redis_stream/lua"
_ACCOUNTING = "tests/engine/bus/test_accounting.py"


PLAN = (
    # Nothing is lost, doubled or swapped
    Mutant(
        "drop-one-in-5000",
        "What was published is delivered: one message in 5,000 is settled and never handled.",
        "engine/bus/consuming/worker.py",
        "        begun = self._clock.monotonic()\n        if held.lost",
        "        begun = self._clock.monotonic()\n"
        '        if __import__("zlib").crc32(held.delivery.position.encode()) % 5000 == 0:\n'
        '            return self._settle_unhandled(held, "settled", 0)\n'
        "        if held.lost",
        (_ACCOUNTING,),
    ),
    Mutant(
        "publish-drops-one-in-5000",
        "A confirmed message lies in the store: one append in 5,000 is answered and not made.",
        f"{_STREAMS}/append.lua",
        "  local id = run('XADD', stream, '*', 'event', ARGV[i])\n",
        "  local id = run('XADD', stream, '*', 'event', ARGV[i])\n"
        "  if (tonumber(redis.call('HGET', KEYS[2], 'published') or 0) + i) % 5000 == 4999 then\n"
        "    redis.call('XDEL', stream, id)\n  end\n",
        (_ACCOUNTING,),
    ),
    Mutant(
        "handle-one-twice",
        "A delivery is handled once: one in 1,000 is handled twice.",
        "engine/bus/consuming/worker.py",
        "                self._handler(message, context)\n            else:",
        "                self._handler(message, context)\n"
        '                if __import__("zlib").crc32(message.id.encode()) % 1000 == 0:\n'
        "                    self._handler(message, context)\n"
        "            else:",
        (_ACCOUNTING,),
    ),
    Mutant(
        "swap-two-of-a-key",
        "A key keeps its order: the first and the last of a read change places.",
        f"{_STREAMS}/receive.lua",
        "      redis.call('ZADD', leases, unpack(members))\n",
        "      redis.call('ZADD', leases, unpack(members))\n"
        "      if ordered and #positions > 30 then\n"
        "        positions[1], positions[#positions] = positions[#positions], positions[1]\n"
        "        bodies[1], bodies[#bodies] = bodies[#bodies], bodies[1]\n"
        "      end\n",
        (_ACCOUNTING,),
    ),
    Mutant(
        "partition-by-message",
        "All of a key lie in one partition: they are spread by their ids.",
        "engine/bus/partitions.py",
        "crc32((key or message_id).encode())",
        "crc32((message_id or key).encode())",
        (_ACCOUNTING, "tests/engine/bus/test_wire_format.py"),
    ),
    Mutant(
        "settle-under-an-old-epoch",
        "Who lost a partition settles nothing in it: the epoch is not asked.",
        f"{_STREAMS}/settle.lua",
        "if ARGV[6] ~= '' and redis.call('HGET', state, 'epoch') ~= ARGV[6] then",
        "if false then",
        ("tests/engine/bus/test_rebalance.py", "tests/conformance/test_redis_stream.py"),
    ),
    Mutant(
        "read-under-an-old-epoch",
        "Who lost a partition reads nothing of it: the epoch is not asked.",
        f"{_STREAMS}/receive.lua",
        "if ordered and epoch ~= ARGV[6] then",
        "if false then",
        ("tests/engine/bus/test_rebalance.py", "tests/conformance/test_redis_stream.py"),
    ),
    # Attempts, retries, dead letters
    Mutant(
        "lapse-counts-nothing",
        "A lease that ran out is a failed attempt: it counts none.",
        f"{_STREAMS}/receive.lua",
        "  failed = failed + 1\n  local attempt = ",
        "  failed = failed + 0\n  local attempt = ",
        ("tests/conformance/test_redis_stream.py",),
    ),
    Mutant(
        "one-attempt-more",
        "A message fails as often as its policy says: once more.",
        "engine/bus/dead.py",
        "number < self._policy.retry.max_attempts:",
        "number <= self._policy.retry.max_attempts:",
        ("tests/engine/bus/test_consumer.py", "tests/engine/bus/test_dead.py"),
    ),
    Mutant(
        "history-forgets-the-last",
        "A dead letter tells every attempt: not the last one.",
        "engine/bus/dead.py",
        "            history=(*history, attempt),",
        "            history=history or (attempt,),",
        ("tests/engine/bus/test_consumer.py", "tests/engine/bus/test_dead.py"),
    ),
    Mutant(
        "retry-at-once",
        "A retry waits for its pause: it comes at once.",
        f"{_STREAMS}/settle.lua",
        "score(BAND + now + tonumber(after_ms))",
        "score(BAND + now)",
        ("tests/engine/bus/test_consumer.py", "tests/conformance/test_redis_stream.py"),
    ),
    # Idempotency
    Mutant(
        "key-forgets-its-digest",
        "An idempotency key with another body is a conflict: it is taken for a repetition.",
        f"{_STREAMS}/publish.lua",
        "  local same = seen and seen.digest == item[3]",
        "  local same = seen ~= nil and seen ~= false",
        ("tests/engine/bus/test_producer.py", "tests/conformance/test_redis_stream.py"),
    ),
    Mutant(
        "key-outlives-its-window",
        "After its window a key is free: it stays for ever.",
        f"{_STREAMS}/publish.lua",
        "  if tonumber(expires) <= now then return nil end\n",
        "",
        ("tests/engine/bus/test_producer.py", "tests/conformance/test_redis_stream.py"),
    ),
    Mutant(
        "inbox-forgets-one-in-ten",
        "An effect is committed once: the inbox does not remember one message in ten.",
        "hbus_console/outbox/inbox.py",
        "        return bool(cursor.rowcount == 1)",
        "        return bool(cursor.rowcount == 1) or sum(message_id.encode()) % 10 == 0",
        ("tests/hbus_console/outbox/test_inbox.py",),
    ),
    Mutant(
        "inbox-commits-without-the-effect",
        "Entry and effect commit together: the entry stays when the effect fails.",
        "hbus_console/outbox/inbox.py",
        "                effect()\n                inside = False\n",
        "                try:\n                    effect()\n"
        "                finally:\n                    return True\n",
        ("tests/hbus_console/outbox/test_inbox.py",),
    ),
    Mutant(
        "api-answers-another-request",
        "An Idempotency-Key belongs to one request: another body gets its answer.",
        "hbus_console/api/idempotency.py",
        "    if found.request_digest != digest:",
        "    if False:",
        ("tests/hbus_console/api/test_idempotency.py",),
    ),
    # Delays
    Mutant(
        "due-a-second-early",
        "A delayed message is never early: it comes a second before.",
        "engine/bus/lua/claim.lua",
        "redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES'",
        "redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now + 1000, 'WITHSCORES'",
        ("tests/engine/bus/test_delays.py",),
    ),
    Mutant(
        "claim-is-a-removal",
        "A mover that dies loses nothing: what it claims is forgotten.",
        "engine/bus/lua/claim.lua",
        "    redis.call('ZADD', KEYS[2], ARGV[2], place)\n",
        "",
        ("tests/engine/bus/test_delays.py",),
    ),
    Mutant(
        "delayed-by-id-alone",
        "Topic, source and id name a delayed message: its id does, which others may choose.",
        "engine/bus/delay_entries.py",
        "    return msgspec.json.encode((topic, source, message_id)).decode()\n",
        "    return message_id\n",
        ("tests/engine/bus/test_delays.py",),
    ),
    Mutant(
        "claim-left-behind",
        "A claim goes to the bus with its message: the mover publishes under a key of its own.",
        "engine/bus/delay_mover.py",
        "(decode(item.body), item.claimed_key)",
        '(decode(item.body), "")',
        ("tests/engine/bus/test_schedule_once.py",),
    ),
    # Leases
    Mutant(
        "release-of-anybody",
        "A lease is given up by its owner: by anybody.",
        "engine/core/lua/release.lua",
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then\n  return 0\nend\n",
        "",
        ("tests/engine/core/test_leases.py",),
    ),
    Mutant(
        "epoch-stands-still",
        "Each owner has an epoch of its own: it stays the same.",
        "engine/core/lua/acquire.lua",
        "redis.call('INCR', KEYS[2])",
        "(redis.call('SETNX', KEYS[2], 1) and tonumber(redis.call('GET', KEYS[2])))",
        ("tests/engine/core/test_leases.py",),
    ),
    # Retention
    Mutant(
        "trim-ignores-readers",
        "Nothing is trimmed that a group has not settled: readers are not asked.",
        f"{_STREAMS}/trim.lua",
        "    if before(floor, bound) then bound = floor end\n",
        "",
        ("tests/hbus_console/topics/test_trimmer.py", "tests/conformance/test_redis_stream.py"),
    ),
    Mutant(
        "trim-one-too-many",
        "As many are kept as the policy says: one fewer.",
        "engine/bus/transports/redis_stream/retention.py",
        "merged(link, partitions), excess - 1, None)",
        "merged(link, partitions), excess, None)",
        ("tests/hbus_console/topics/test_trimmer.py", "tests/conformance/test_redis_stream.py"),
    ),
    # Evidence
    Mutant(
        "ledger-counts-one-in-500-twice",
        "What was settled is counted once: one fact in 500 counts twice.",
        "hbus_console/messages/projection.py",
        "if kind.counter.adds else part.count\n",
        "if kind.counter.adds else part.count + part.count // 400\n",
        ("tests/hbus_console/evidence/test_collector.py",),
    ),
    Mutant(
        "fact-of-what-was-refused",
        "A fact tells what the store has confirmed: also what it refused.",
        "engine/bus/consuming/settler.py",
        "            if ok or (unsure and ok is not None):\n",
        "            if True:\n",
        ("tests/engine/bus/test_consumer_leases.py", "tests/engine/bus/test_consumer_healing.py"),
    ),
    # The audit log
    Mutant(
        "hash-without-the-reason",
        "An entry's hash covers all of it: not its reason.",
        "hbus_console/audit/services.py",
        '        "reason": entry.reason,\n',
        "",
        ("tests/hbus_console/audit/test_verify.py", "tests/hbus_console/audit/test_tampering.py"),
    ),
    Mutant(
        "hash-without-the-one-before",
        "Entries are chained: each hash stands alone.",
        "hbus_console/audit/chain.py",
        'previous_hash.encode() + b"\\n" + canonical(content)',
        "canonical(content)",
        ("tests/hbus_console/audit/test_verify.py", "tests/hbus_console/audit/test_tampering.py"),
    ),
    # Access and masking
    Mutant(
        "token-above-its-ceiling",
        "A token does no more than it was made for: its limit is not asked.",
        "hbus_console/access/permissions.py",
        "    if actor.limit is not None and not _grant_allows(actor.limit, action, resource):\n        return False\n",
        "",
        ("tests/hbus_console/accounts/test_tokens.py", "tests/hbus_console/test_access_matrix.py"),
    ),
    Mutant(
        "search-of-a-masked-field",
        "A masked field cannot be asked for: only its exact path is refused.",
        "hbus_console/topics/masking.py",
        "    return any(asked.overlaps(FieldPath.parse(field)) for field in masked_fields)",
        "    return any(asked == FieldPath.parse(field) for field in masked_fields)",
        ("tests/hbus_console/topics/test_masking.py",),
    ),
    Mutant(
        "signature-without-its-time",
        "A webhook's signature covers the time of the call: only the body.",
        "engine/core/signing.py",
        'hmac.new(secret, b"%d.%b" % (at_s, body), hashlib.sha256)',
        "hmac.new(secret, body, hashlib.sha256)",
        ("tests/engine/bus/test_webhook.py",),
    ),
    # The outbox
    Mutant(
        "outbox-overtakes-in-a-key",
        "The outbox keeps the order of a key: what failed is overtaken.",
        "hbus_console/outbox/relay.py",
        "    turn.blocked |= {(row.topic, row.key) for row, _ in failed if row.key}\n",
        "",
        ("tests/hbus_console/outbox/test_relay.py",),
    ),
    Mutant(
        "breaker-written-by-the-slower",
        "Of many that change a breaker at once, one does: the last one wins.",
        "engine/bus/consuming/lua/breaker_write.lua",
        "if (redis.call('HGET', KEYS[1], 'revision') or '0') ~= ARGV[1] then return 0 end\n",
        "",
        ("tests/engine/bus/test_breaker.py",),
    ),
    *CRON,
)
