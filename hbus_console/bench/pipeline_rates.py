"""How fast a topic is read, archived and written, and the lake read back and replayed, each beside a plain way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from engine.core.errors import ConfigurationError
from hbus_console.bench.pipeline_audits import AREA
from hbus_console.bench.pipeline_rig import PipelineRig
from hbus_console.bench.rig import Measurement
from hbus_console.bench.rows import Row, missing

#: Rows a second.
GOAL_READ, GOAL_ARCHIVE, GOAL_WRITE = 400_000.0, 200_000.0, 200_000.0
UNIT = "rows/s"

Did = Callable[[PipelineRig], dict[str, Any]]


class RateBeside(NamedTuple):
    """One row: two ways to do a thing."""

    what: str
    ours: Did
    peer: str
    theirs: Did
    goal: float | None = None


def _spark(do: str, cores: int = 2, **more: Any) -> Did:
    return lambda rig: rig.session(cores).did(do, rows=rig.filled, **more)


def _plain(do: str) -> Did:
    def done(rig: PipelineRig) -> dict[str, Any]:
        # It looks for the topic, which has to be there.
        assert rig.filled
        return rig.of_topic(do, program="peers.plain_redis")

    return done


def _engine(do: str) -> Did:
    return lambda rig: rig.of_topic(do, count=rig.filled)


_BY_HAND = "redis-py, one process"
ROWS = (
    RateBeside("a topic read by Spark, the usual columns", _spark("read"), _BY_HAND, _plain("read"), GOAL_READ),
    RateBeside(
        "a topic read by Spark, envelopes as they lie",
        _spark("read", columns="position,envelope"),
        _BY_HAND,
        _plain("read"),
    ),
    RateBeside("a topic read by Spark, 2 cores beside 1", _spark("read"), "ours on one core", _spark("read", cores=1)),
    RateBeside(
        "a topic archived in one process",
        _engine("archive"),
        "redis-py, json and pyarrow, one process",
        _plain("archive"),
        GOAL_ARCHIVE,
    ),
    RateBeside(
        "a topic archived by Spark",
        _spark("archive"),
        "redis-py, json and pyarrow, one process",
        _plain("archive"),
        GOAL_ARCHIVE,
    ),
    RateBeside("the lake read back by Spark", _spark("read_back"), "pyarrow, file by file", _engine("read_back")),
    RateBeside(
        "a table written into a topic by Spark",
        _spark("write"),
        "redis-py, XADD in pipelines of 1,000",
        _plain("append"),
        GOAL_WRITE,
    ),
    RateBeside(
        "a span replayed from the lake, in the order of storing",
        _engine("replay"),
        "pyarrow, file by file, in no order",
        _engine("read_back"),
    ),
)


def measurements(rig: PipelineRig) -> Iterator[Measurement]:
    """Of all rates, in the order of the table."""
    for each in ROWS:
        yield Measurement(each.what, partial(_measured, rig, each))


def _measured(rig: PipelineRig, each: RateBeside) -> Row:
    conditions = rig.conditions
    try:
        pairs = [(_rate(each.ours(rig)), _rate(each.theirs(rig))) for _ in range(rig.samples)]
    except ConfigurationError as error:
        return missing(
            AREA, each.what, UNIT, ours=None, peer=each.peer, why=error.what, conditions=conditions, goal=each.goal
        )
    mine, other = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    said = f"{conditions}; the topic has {rig.filled:,} messages" + ("; the goal is of our rate" if each.goal else "")
    holds = None if each.goal is None else mine >= each.goal
    return Row(AREA, each.what, UNIT, mine, each.peer, other, mine / other, each.goal, holds, rig.samples, said)


def _rate(did: dict[str, Any]) -> float:
    return float(did["rows"] / did["took_s"])
