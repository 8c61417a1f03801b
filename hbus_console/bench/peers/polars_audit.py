"""The audit by Polars, on its streaming engine: numbers are read once, and compared.

It looks at no payload, and at no file's hash: less than ours does.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from hbus_console.bench.pipeline_audit import WINDOW_MS
from hbus_console.bench.pipeline_lake import files_of
from hbus_console.bench.processes import report, wait_for_go

#: How far a producer's clock may be off, milliseconds.
_SKEW_MS = 300_000
_FINAL = ("settled", "dead", "lost", "passed")
_PARTS = (0.5, 0.95, 0.99, 0.999, 1.0)


def audit(files: dict[str, list[str]]) -> dict[str, Any]:
    """What :func:`~hbus_console.bench.pipeline_audit.figures` has."""
    # It reads how many threads it may have when it is imported.
    import polars as pl

    def read(kind: str, *columns: Any) -> Any:
        return pl.scan_parquet(files[kind]).select(*columns).collect(engine="streaming").lazy()

    def in_windows(frame: Any, *columns: Any) -> list[tuple[Any, ...]]:
        found = frame.group_by((pl.col("at") - pl.col("at") % WINDOW_MS).alias("start")).agg(*columns)
        rows: list[tuple[Any, ...]] = found.collect(engine="streaming").rows()
        return rows

    stored, said = _ms(pl, "stored_at"), _ms(pl, "time")
    messages = read(
        "messages",
        pl.struct("id", "source").hash().alias("ident"),
        pl.struct("key_hash", "source", "log").hash().alias("place"),
        pl.col("sequence").cast(pl.Int64).alias("number"),
        stored.alias("stored"),
        pl.when((said - stored).abs() > _SKEW_MS).then(stored).otherwise(said).alias("at"),
    )
    told = read("published", _ident(pl), _ms(pl, "published_at").alias("at"))
    deliveries = read("deliveries", _ident(pl), "kind", "row_id", _ms(pl, "at").alias("at"))
    once = messages.sort("stored").unique("ident", keep="first").collect(engine="streaming").lazy()
    first = once.select("ident", "stored", "at").with_columns(mine=pl.lit(value=True))
    told = told.unique("ident", keep="any").with_columns(theirs=pl.lit(value=True))
    both = first.join(told, on="ident", how="full", coalesce=True).with_columns(
        at=pl.coalesce("at", "at_right"), mine=pl.col("mine").is_not_null(), theirs=pl.col("theirs").is_not_null()
    )
    matched = in_windows(
        both,
        pl.col("theirs").sum(),
        (pl.col("theirs") & ~pl.col("mine")).sum().alias("missing"),
        (pl.col("mine") & ~pl.col("theirs")).sum().alias("untold"),
    )
    counted = dict(in_windows(messages, pl.len()))
    number = pl.col("number")
    late = once.sort("place", "stored").select((number < number.cum_max().over("place")).sum()).collect().item()
    gaps = messages.group_by("place").agg(lacking=number.max() - number.min() + 1 - number.n_unique())
    final = deliveries.filter(pl.col("kind").is_in(_FINAL)).sort("row_id").unique("ident", keep="first")
    outcome = first.join(final, on="ident", how="left").select(
        "kind", after=(pl.col("at_right") - pl.col("stored")).clip(lower_bound=0)
    )
    outcome = outcome.collect(engine="streaming")
    after = outcome.filter(pl.col("kind") == "settled")["after"].sort()
    only_told = told.join(first, on="ident", how="anti").join(deliveries, on="ident").filter(kind="settled")
    kinds = dict(deliveries.group_by("kind").len().collect(engine="streaming").rows())
    return {
        "findings": {
            "missing": sum(each[2] for each in matched),
            "untold": sum(each[3] for each in matched),
            "duplicate": _count(messages) - _count(once),
            "out_of_order": late,
            "gap": gaps.select(pl.col("lacking").sum()).collect(engine="streaming").item(),
            "no_outcome": int(outcome["kind"].null_count()),
            "dead": kinds.get("dead", 0),
            "retried": kinds.get("retried", 0),
        },
        "published": sum(each[1] for each in matched),
        "archived": sum(counted.values()),
        "settled": len(after) + _count(only_told),
        "windows": _windows({start: told for start, told, *_ in matched}, counted),
        "settled_after": [after[max(0, -int(-part * len(after) // 1) - 1)] for part in _PARTS],
    }


def _ms(pl: Any, column: str) -> Any:
    return pl.col(column).dt.epoch("ms")


def _ident(pl: Any) -> Any:
    # By the same names, for the hash of a struct is of its fields.
    return pl.struct(id="message_id", source="source").hash().alias("ident")


def _count(frame: Any) -> int:
    # As above: not before the module is loaded.
    import polars as pl

    return int(frame.select(pl.len()).collect(engine="streaming").item())


def _windows(told: dict[int, int], counted: dict[int, int]) -> dict[str, list[int]]:
    return {str(start): [told.get(start, 0), counted.get(start, 0)] for start in {*told, *counted}}


def main(task: dict[str, Any]) -> None:
    """``task``: root, cores."""
    os.environ["POLARS_MAX_THREADS"] = str(task["cores"])
    # It is there before the clock starts, as ours is.
    import polars as pl

    assert pl.thread_pool_size() == int(task["cores"])
    files = files_of(Path(task["root"]))
    wait_for_go()
    began, spent = time.perf_counter(), time.process_time()
    found = audit(files)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - spent
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report(took_s=took_s, cpu_s=cpu_s, most_bytes=most, **found)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
