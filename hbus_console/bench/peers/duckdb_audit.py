"""The audit by DuckDB: what is compared is read once into tables of numbers, as somebody would who knows it well.

It looks at no payload, and at no file's hash: less than ours does.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import duckdb

from hbus_console.bench.pipeline_audit import WINDOW_MS
from hbus_console.bench.pipeline_lake import files_of
from hbus_console.bench.processes import report, wait_for_go

#: A producer's clock may be off by five minutes.
_READ = """
CREATE TEMP TABLE messages AS
SELECT hash(id, source) AS ident, key_hash, hash(source, log) AS place, sequence::BIGINT AS number,
       epoch_ms(stored_at) AS stored,
       CASE WHEN abs(epoch_ms(time) - epoch_ms(stored_at)) > 300000 THEN epoch_ms(stored_at)
            ELSE epoch_ms(time) END AS happened
FROM read_parquet($messages);
CREATE TEMP TABLE published AS
SELECT hash(message_id, source) AS ident, epoch_ms(published_at) AS happened FROM read_parquet($published);
CREATE TEMP TABLE deliveries AS
SELECT hash(message_id, source) AS ident, kind, row_id, epoch_ms("at") AS happened FROM read_parquet($deliveries);
"""
#: Each message once, as it was stored first.
_FIRST = """
CREATE TEMP TABLE first AS
SELECT ident, min(stored) AS stored, arg_min(happened, stored) AS happened, count(*) AS times
FROM messages GROUP BY ident;
"""
_COUNTED = "SELECT happened - happened % $window, count(*) FROM messages GROUP BY 1"
_MATCHED = """
WITH told AS (SELECT DISTINCT ON (ident) ident, happened FROM published),
     both_sides AS (
       SELECT first.ident AS mine, told.ident AS theirs, coalesce(first.happened, told.happened) AS happened
       FROM first FULL JOIN told USING (ident))
SELECT happened - happened % $window, count(theirs), count(theirs) FILTER (mine IS NULL),
       count(mine) FILTER (theirs IS NULL)
FROM both_sides GROUP BY 1
"""
_COPIES = "SELECT coalesce(sum(times - 1), 0)::BIGINT FROM first WHERE times > 1"
#: Copies are left out of both: they stand where they stand.
_ORDER = """
WITH once AS (SELECT messages.* FROM messages JOIN first USING (ident, stored)),
     so_far AS (
       SELECT number, max(number) OVER (PARTITION BY key_hash, place ORDER BY stored
                                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
       FROM once)
SELECT count(*) FROM so_far WHERE number < highest
"""
_GAPS = """
SELECT sum(lacking)::BIGINT FROM (
  SELECT max(number) - min(number) + 1 - count(DISTINCT number) AS lacking FROM messages GROUP BY key_hash, place)
"""
_OUTCOMES = """
WITH final AS (SELECT ident, arg_min(kind, row_id) AS kind, arg_min(happened, row_id) AS happened
               FROM deliveries WHERE kind IN ('settled', 'dead', 'lost', 'passed') GROUP BY ident)
SELECT count(*) FILTER (kind IS NULL), count(*) FILTER (kind = 'settled'),
       quantile_disc(greatest(final.happened - first.stored, 0), [0.5, 0.95, 0.99, 0.999, 1.0])
         FILTER (kind = 'settled')
FROM first LEFT JOIN final USING (ident)
"""
#: Of what is only told of, the time is taken as it was told.
_ONLY_TOLD = """
SELECT count(*) FROM (SELECT DISTINCT ident FROM published ANTI JOIN first USING (ident))
JOIN deliveries USING (ident) WHERE kind = 'settled'
"""
_TOLD = "SELECT kind, count(*) FROM deliveries WHERE kind IN ('dead', 'retried') GROUP BY kind"


def audit(connection: duckdb.DuckDBPyConnection, files: dict[str, list[str]]) -> dict[str, Any]:
    """What :func:`~hbus_console.bench.pipeline_audit.figures` has."""
    for statement in filter(str.strip, _READ.split(";")):
        kind = next(kind for kind in files if f"${kind}" in statement)
        connection.execute(statement, {kind: files[kind]})
    connection.execute(_FIRST)
    window = {"window": WINDOW_MS}
    stored = {str(start): count for start, count in connection.execute(_COUNTED, window).fetchall()}
    matched = {str(start): rest for start, *rest in connection.execute(_MATCHED, window).fetchall()}
    told = dict(connection.execute(_TOLD).fetchall())
    no_outcome, settled, after = _one(connection, _OUTCOMES)
    return {
        "findings": {
            "missing": sum(each[1] for each in matched.values()),
            "untold": sum(each[2] for each in matched.values()),
            "duplicate": _one(connection, _COPIES)[0],
            "out_of_order": _one(connection, _ORDER)[0],
            "gap": _one(connection, _GAPS)[0],
            "no_outcome": no_outcome,
            "dead": told.get("dead", 0),
            "retried": told.get("retried", 0),
        },
        "published": sum(each[0] for each in matched.values()),
        "archived": sum(stored.values()),
        "settled": settled + _one(connection, _ONLY_TOLD)[0],
        "windows": {start: [matched.get(start, [0])[0], stored.get(start, 0)] for start in {*stored, *matched}},
        "settled_after": after,
    }


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    found = connection.execute(query).fetchone()
    assert found is not None
    return found


def main(task: dict[str, Any]) -> None:
    """``task``: root, cores."""
    files = files_of(Path(task["root"]))
    wait_for_go()
    began, spent = time.perf_counter(), time.process_time()
    connection = duckdb.connect(config={"threads": int(task["cores"]), "preserve_insertion_order": False})
    found = audit(connection, files)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - spent
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report(took_s=took_s, cpu_s=cpu_s, most_bytes=most, **found)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
