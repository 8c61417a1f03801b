"""How far a Spark application is, as its driver tells it: user code may have written it, so all of it is checked."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from engine.core.error_text import shortened
from engine.core.errors import BadInput
from engine.core.prepared import prepared
from engine.core.secret_values import SecretValues
from engine.cron.work.log_spool import shown
from engine.cron.work.spark.bounds import FAILURE_SENT, MOST_QUERIES, MOST_STAGES, NAME_SENT

#: What is kept of a name, in characters.
NAME_SHOWN = 200

_Count = Annotated[int, Meta(ge=0, le=2**53)]
#: Milliseconds since the epoch, up to the year 9999.
_Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
_Rate = Annotated[float, Meta(ge=0, le=1e15)]
_Name = Annotated[str, Meta(max_length=NAME_SENT)]


class SparkJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many jobs Spark has made of the application."""

    done: _Count = 0
    active: _Count = 0
    failed: _Count = 0


class SparkTasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many tasks there are in all stages that are known of, also those left out; ``failed`` were tried again, or
    their stage failed."""

    done: _Count = 0
    active: _Count = 0
    failed: _Count = 0
    total: _Count = 0

    def __post_init__(self) -> None:
        if self.done > self.total:
            raise ValueError("more tasks are done than there are")


class SparkStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt of one stage, by the description that the application gave its job, the job's group, or the place in
    the code. Times are in milliseconds since the epoch, by the driver's clock."""

    id: _Count
    attempt: _Count
    name: _Name
    state: Literal["waits", "running", "done", "failed"]
    done: _Count
    active: _Count
    failed: _Count
    total: _Count
    began_ms: _Moment | None = None
    ended_ms: _Moment | None = None

    def __post_init__(self) -> None:
        if self.done > self.total:
            raise ValueError("more tasks are done than there are")


class SparkQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A streaming query, as its last batch went. ``active``: it goes on."""

    name: _Name
    active: bool
    batch: _Count
    input_rows_s: _Rate
    processed_rows_s: _Rate


class SparkProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far it is. The newest stages and queries, and how many more there were; memory is the heap of the driver's
    Java; ``failure`` is the Python error that ended the application."""

    jobs: SparkJobs = SparkJobs()
    tasks: SparkTasks = SparkTasks()
    stages: Annotated[list[SparkStage], Meta(max_length=MOST_STAGES)] = []
    stages_left_out: _Count = 0
    queries: Annotated[list[SparkQuery], Meta(max_length=MOST_QUERIES)] = []
    queries_left_out: _Count = 0
    memory_bytes: _Count | None = None
    memory_most_bytes: _Count | None = None
    failure: Annotated[str, Meta(max_length=FAILURE_SENT)] = ""

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to see of it beside a failure."""
        return bool(self.tasks.total or self.stages or self.queries or self.jobs != SparkJobs())


def read_progress(line: bytes, secrets: SecretValues) -> SparkProgress:
    """What a line says, with its texts as those of a log may be shown: without control characters and ``secrets``.

    Raises ``BadInput`` for what is none.
    """
    try:
        said = msgspec.json.decode(line, type=prepared(SparkProgress))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            f"it is no progress of Spark: {error}", remedy="Leave it to hbus to tell it.", field="progress"
        ) from error
    replace = msgspec.structs.replace
    return replace(
        said,
        stages=[replace(stage, name=_name(stage.name, secrets)) for stage in said.stages],
        queries=[replace(query, name=_name(query.name, secrets)) for query in said.queries],
        failure=shortened(_shown(said.failure, FAILURE_SENT, secrets).strip(), FAILURE_SENT),
    )


def _name(text: str, secrets: SecretValues) -> str:
    # Cut after the redaction: half a secret looks like none.
    return shortened(" ".join(_shown(text, NAME_SENT, secrets).split()), NAME_SHOWN)


def _shown(text: str, limit: int, secrets: SecretValues) -> str:
    return shown(secrets.out_of(text, cut=len(text) >= limit).encode("utf-8", "backslashreplace"))
