"""The story as rows of the lake's files: bookings as the hotel of the demo publishes them, whole columns at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.pipeline.lake.schema import DELIVERIES, KEY_HASH, PUBLISHED, READ
from engine.pipeline.source.columns import INSTANT, schema_of
from hbus_console.bench.pipeline_story import (
    DEAD,
    NEVER,
    NO_OUTCOME,
    RETRIED,
    SOURCE,
    SUBSCRIPTION,
    TOPIC,
    UNTOLD,
    Ints,
    PipelineStory,
)

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
#: So many bookings differ in more than their number and their guest.
_BOOKINGS = 997
#: Of an envelope, without its data, bytes.
_ENVELOPE = 300


def messages(story: PipelineStory, log: str, places: Ints, numbers: Ints) -> pa.RecordBatch:
    """As a topic's log has them, in the order of their places."""
    stored = story.stored_ms(places)
    data = _data(story, numbers)
    again = np.append(False, places[1:] == places[:-1])
    columns = {
        "topic": _repeated(TOPIC, len(places)),
        "log": _repeated(log, len(places)),
        "position": pc.binary_join_element_wise(_texts(stored), _texts(again.astype(np.int64)), "-"),
        "stored_at": _instants(stored),
        "size": pc.add(pc.cast(pc.binary_length(data), pa.int64()), _ENVELOPE),
        "id": ids(story, numbers),
        "source": _repeated(SOURCE, len(places)),
        "type": _repeated(TOPIC, len(places)),
        "partitionkey": _keys(story, numbers),
        "sequence": _texts(story.sequence_of(numbers)),
        "datacontenttype": _repeated("application/json", len(places)),
        "time": _instants(stored - 1 - places % 900),
        "data": data,
    }
    return _batch(columns, schema_of(READ), len(places))


def published(story: PipelineStory, low: int, high: int) -> pa.RecordBatch:
    """What the ledger tells of messages of these numbers."""
    numbers = np.arange(low, high)
    numbers = numbers[~story.has(numbers, UNTOLD, NEVER)]
    stored = story.stored_ms(numbers)
    columns = {
        "row_id": pa.array(numbers + 1),
        "message_id": ids(story, numbers),
        "topic": _repeated(TOPIC, len(numbers)),
        "type": _repeated(TOPIC, len(numbers)),
        "source": _repeated(SOURCE, len(numbers)),
        "key": _keys(story, numbers),
        "position": pc.binary_join_element_wise(_texts(stored), "0", "-"),
        "size": pa.array(np.full(len(numbers), _ENVELOPE + 300)),
        "published_at": _instants(stored),
        "stored_us": pa.array(90 + numbers % 400),
    }
    return _batch(columns, _without_hash(PUBLISHED), len(numbers))


def deliveries(story: PipelineStory, low: int, high: int) -> tuple[pa.RecordBatch, Ints]:
    """What became of the messages of these places, as the ledger tells; and when, epoch milliseconds."""
    places = np.arange(low, high)
    numbers = story.at(places)
    kept = ~story.has(numbers, NO_OUTCOME, NEVER)
    places, numbers = places[kept], numbers[kept]
    retried = story.has(numbers, RETRIED)
    # What failed first comes right before what it became of it.
    which = np.repeat(np.arange(len(numbers)), 1 + retried)
    is_first = np.append(True, which[1:] != which[:-1])
    failed = is_first & retried[which]
    places, numbers = places[which], numbers[which]
    took = 5 + (_mixed(numbers) % np.uint64(4_000)).astype(np.int64)
    took += np.where(_mixed(numbers + 1) % np.uint64(1_000) == 0, 60_000, 0)
    at = story.stored_ms(places) + np.where(failed, 4, took)
    kinds = np.where(failed, 1, np.where(story.has(numbers, DEAD), 2, 0))
    columns = {
        "row_id": pa.array(2 * places + np.where(failed, 1, 2)),
        "message_id": ids(story, numbers),
        "source": _repeated(SOURCE, len(numbers)),
        "topic": _repeated(TOPIC, len(numbers)),
        "subscription": _repeated(SUBSCRIPTION, len(numbers)),
        "kind": pa.array(["settled", "retried", "dead"]).take(pa.array(kinds)),
        "at": _instants(at),
        "attempt": pa.array(np.where(is_first, 1, 2)),
        "duration_us": pa.array(800 + numbers % 5_000),
        "node": _repeated("consumer-1", len(numbers)),
    }
    return _batch(columns, _without_hash(DELIVERIES), len(numbers)), at


def ids(story: PipelineStory, numbers: Ints) -> pa.Array:
    """Of messages, as the bus makes them: their time and chance, in 26 letters."""
    parts = (
        (story.stored_ms(numbers).astype(np.uint64), 10),
        (_mixed(numbers), 8),
        (_mixed(~numbers), 8),
    )
    letters = np.concatenate([_letters(value, count) for value, count in parts], axis=1)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * letters.shape[1]
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(letters.tobytes()))


def _letters(values: NDArray[np.uint64], count: int) -> NDArray[np.uint8]:
    shifts = np.arange(count - 1, -1, -1, dtype=np.uint64) * np.uint64(5)
    found: NDArray[np.uint8] = _ALPHABET[(values[:, None] >> shifts) & np.uint64(31)]
    return found


def _mixed(numbers: Ints) -> NDArray[np.uint64]:
    """As good as chance: splitmix64."""
    value = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _data(story: PipelineStory, numbers: Ints) -> pa.Array:
    guests = _texts(story.key_of(numbers))
    return pc.binary_join_element_wise(
        '{"booking_id":"b-',
        _texts(numbers),
        '","guest":{"name":"Guest ',
        guests,
        '","email":"guest',
        guests,
        _bookings().take(pa.array(numbers % _BOOKINGS)),
        "",
    )


@cache
def _bookings() -> pa.Array:
    return pa.array([f'@example.org","country":"{_COUNTRIES[at % 9]}"}},{_rest(at)}' for at in range(_BOOKINGS)])


_COUNTRIES = ("PRT", "GBR", "FRA", "ESP", "DEU", "ITA", "IRL", "BEL", "BRA")


def _rest(at: int) -> str:
    told = {
        "hotel": ("Resort Hotel", "City Hotel")[at % 2],
        "stay": {
            "arrival": f"2027-{1 + at % 12:02}-{1 + at % 28:02}",
            "nights": 1 + at % 14,
            "room": "ABCDEFG"[at % 7],
        },
        "adults": 1 + at % 3,
        "children": at % 4 // 3,
        "channel": ("TA/TO", "Direct", "Corporate")[at % 3],
        "segment": ("Online TA", "Offline TA/TO", "Groups", "Direct")[at % 4],
        "meal": ("BB", "HB", "SC", "FB")[at % 4],
        "deposit": "No Deposit",
        "daily_rate_cents": 4_000 + at * 37 % 16_000,
    }
    return json.dumps(told, separators=(",", ":"))[1:]


def _keys(story: PipelineStory, numbers: Ints) -> pa.Array:
    return pc.binary_join_element_wise("guest", _texts(story.key_of(numbers)), "-")


def _texts(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _instants(ms: Ints) -> pa.Array:
    return pa.array(ms * 1000).cast(INSTANT)


def _without_hash(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each for each in schema if each.name != KEY_HASH])


def _batch(columns: Mapping[str, pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """What is not said is null."""
    arrays = [columns[each.name] if each.name in columns else pa.nulls(count, each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
