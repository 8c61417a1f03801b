"""Reads in a driver how far its application is: from what Spark itself keeps for its pages, which opens no port.

Each question to the JVM costs about a tenth of a millisecond: of what has ended nothing is asked twice.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.cron.work.spark.bounds import MOST_QUERIES, MOST_STAGES, NAME_SENT

_STATES = {"PENDING": "waits", "ACTIVE": "running", "COMPLETE": "done", "FAILED": "failed"}
_ENDED = ("done", "failed")
#: Where Spark itself calls, on behalf of a query, and not the application.
_NOWHERE = (" at CompletableFuture.java:", " at NativeMethodAccessorImpl.java:")
#: Where in which file it was called, at the end of Spark's own words.
_PLACE = re.compile(r"(?<= at )(/[^\n]*\.py)(?=:\d+\Z)")
_OF_BATCH = "\nrunId = "
#: Between two looks so many streaming queries may begin; of more the newest are told of.
_MOST_BEGUN = 1_000
#: Among so many of the newest queries that is looked for on whose behalf.
_CALLS = 20
#: How long the end of an application waits until what has happened is noted, in milliseconds.
_FLUSH_MS = 500


@dataclass
class _Stage:
    id: int
    attempt: int
    name: str
    state: str = "waits"
    done: int = 0
    active: int = 0
    failed: int = 0
    total: int = 0
    began_ms: int | None = None
    ended_ms: int | None = None


@dataclass
class _Query:
    name: str
    active: bool = True
    batch: int = 0
    input_rows_s: float = 0.0
    processed_rows_s: float = 0.0


class SparkLook:
    """Of one driver, whatever contexts it makes one after the other. Not thread-safe."""

    def __init__(self) -> None:
        """Raises ``ImportError`` where Spark is not installed."""
        # Only where Spark is installed.
        from py4j.protocol import Py4JJavaError
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        self._of, self._sessions, self._refused = SparkContext, SparkSession, Py4JJavaError
        #: The folder of the application.
        self._home = Path(sys.argv[0]).absolute().parent
        self._context: Any = None
        #: That which stops, or has: what it is asked then it answers wrongly.
        self._left: Any = None
        #: Those of the newest stages, and those of all that is not among them any more.
        self._stages: dict[tuple[int, int], _Stage] = {}
        self._gone, self._gone_done, self._gone_failed, self._gone_total = 0, 0, 0, 0
        self._open_jobs: set[int] = set()
        self._jobs_done = self._jobs_failed = 0
        self._newest_job = self._newest_stage = -1
        #: Stages of jobs that were seen, which are yet to be.
        self._awaited: set[int] = set()
        #: By stage what the application calls its job, or the group of it: a stage that waits does not know it.
        self._called: dict[int, str] = {}
        self._queries: dict[str, _Query] = {}
        #: Those that go on, and those that began since the last look, as the JVM has them.
        self._running: dict[str, Any] = {}
        self._begun: deque[Any] = deque(maxlen=_MOST_BEGUN)
        self._queries_gone = 0
        self._note_queries()

    def said(self, *, flush: bool = False) -> dict[str, Any] | None:
        """How it stands now; ``None`` where there is no context, or has been none yet. ``flush``: also what Spark has
        yet to note. Raises what the bridge to the JVM does."""
        context = self._of._active_spark_context
        if context is None or context is self._left or getattr(context, "_jsc", None) is None:
            return None
        if context is not self._context:
            self._begin(context)
        if flush:
            self._had(lambda: context._jsc.sc().listenerBus().waitUntilEmpty(_FLUSH_MS))
        store = context._jsc.sc().statusStore()
        # Before the jobs: of a stage that is listed the job is, and so what that is called.
        active, listed = (self._listed(store, context._gateway, *states) for states in (("ACTIVE",), ()))
        self._look_at_jobs(store)
        self._look_at_stages(store, active, listed)
        self._look_at_queries()
        return self._as_told(context)

    def leave(self, context: Any) -> None:
        """Ask nothing more of it: it is about to stop."""
        self._left = context

    def _begin(self, context: Any) -> None:
        """Numbers begin anew with a context."""
        self._context = context
        for stage in list(self._stages):
            self._let_go(stage)
        self._open_jobs.clear()
        self._called.clear()
        self._awaited.clear()
        self._newest_job = self._newest_stage = -1

    def _look_at_jobs(self, store: Any) -> None:
        for job in _newest(store.jobsList(None)):
            number = job.jobId()
            if number <= self._newest_job:
                break
            self._open_jobs.add(number)
            stages = [stage for stage in _numbers(job.stageIds()) if stage > self._newest_stage]
            self._awaited.update(stages)
            if (called := _given(job.description()) or _given(job.jobGroup())) is not None:
                self._called |= dict.fromkeys(stages, str(called))
        self._newest_job = max(self._open_jobs, default=self._newest_job)
        for number in sorted(self._open_jobs):
            job = self._had(functools.partial(store.job, number))
            state = "UNKNOWN" if job is None else job.status().toString()
            if state != "RUNNING":
                self._open_jobs.discard(number)
                self._jobs_done += state == "SUCCEEDED"
                self._jobs_failed += state == "FAILED"

    def _look_at_stages(self, store: Any, active: Any, listed: Any) -> None:
        seen = {self._note(each) for each in _newest(active)}
        newest = self._newest_stage
        for each in _newest(listed):
            number = each.stageId()
            if number <= newest:
                break
            self._newest_stage = max(number, self._newest_stage)
            seen.add(self._note(each))
        self._awaited -= {number for number, _ in seen}
        for number in sorted(self._awaited):
            if (last := self._had(functools.partial(store.lastStageAttempt, number))) is not None:
                seen.add(self._note(last))
                self._awaited.discard(number)
                self._newest_stage = max(number, self._newest_stage)
        if not self._open_jobs:
            self._awaited.clear()
        for key in [key for key, stage in self._stages.items() if stage.state not in _ENDED and key not in seen]:
            last = self._had(functools.partial(store.lastStageAttempt, key[0]))
            if last is None or self._note(last) != key:
                # Forgotten, or begun anew: of this attempt nothing comes any more.
                self._stages[key].state, self._stages[key].active = "failed", 0

    def _listed(self, store: Any, gateway: Any, *states: str) -> Any:
        jvm, wanted = gateway.jvm, None
        if states:
            wanted = jvm.java.util.ArrayList()
            for state in states:
                wanted.add(getattr(jvm.org.apache.spark.status.api.v1.StageStatus, state))
        nothing = gateway.new_array(jvm.double, 0)
        return store.stageList(wanted, False, False, nothing, jvm.java.util.ArrayList())

    def _note(self, each: Any) -> tuple[int, int]:
        """What is new of one; its key."""
        key = (each.stageId(), each.attemptId())
        state, stage = _STATES.get(each.status().toString()), self._stages.get(key)
        if state is None:
            # Skipped: what it would have made is there.
            self._stages.pop(key, None)
            self._called.pop(key[0], None)
        elif stage is None or state != "waits":
            if stage is None:
                before = self._stages.get((key[0], key[1] - 1))
                name = self._name_of(each) if before is None else before.name
                stage = self._stages[key] = _Stage(*key, name, total=each.numTasks())
            stage.state = state
            stage.done, stage.active = min(each.numCompleteTasks(), stage.total), each.numActiveTasks()
            stage.failed = each.numFailedTasks()
            stage.began_ms, stage.ended_ms = _ms(each.submissionTime()), _ms(each.completionTime())
        return key

    def _name_of(self, stage: Any) -> str:
        number = stage.stageId()
        name = str(self._called.pop(number, None) or _given(stage.description()) or stage.name())
        if _OF_BATCH in name:
            # Spark's own words for a batch: the query's name, its numbers, and which batch.
            lines = name.splitlines()
            name = f"{lines[0]}, {lines[-1]}"
        if any(place in name for place in _NOWHERE):
            name = self._call_of(number) or name
            for place in _NOWHERE:
                name = name.partition(place)[0]
        return with_place(name, self._home)[:NAME_SENT]

    def _call_of(self, stage: int) -> str:
        """What was asked of the query that has it, such as ``count``; empty where none of the newest has."""
        if (state := self._shared_state()) is None:
            return ""
        queries = state.statusStore()
        for query in _newest(queries.executionsList(max(0, queries.executionsCount() - _CALLS), _CALLS)):
            if stage in _numbers(query.stages()):
                return str(query.description())
        return ""

    def _shared_state(self) -> Any:
        session = getattr(self._sessions, "_instantiatedSession", None)
        return session and getattr(session, "_jsparkSession", None) and session._jsparkSession.sharedState()

    def _note_queries(self) -> None:
        """From now on each that the application starts, however soon it ends."""
        # Only where Spark is installed.
        from pyspark.sql.streaming.query import StreamingQuery

        made = StreamingQuery.__init__

        @functools.wraps(made)
        def noted(query: StreamingQuery, jsq: Any) -> None:
            made(query, jsq)
            self._begun.append(jsq)

        StreamingQuery.__init__ = noted

    def _look_at_queries(self) -> None:
        while self._begun:
            query = self._begun.popleft()
            self._running[query.runId().toString()] = query
        for key, query in list(self._running.items()):
            # Asked before its last batch is: of one that has ended that is the last of all.
            goes_on = query.isActive()
            told = self._queries.setdefault(key, _Query(str(query.name() or query.id().toString())[:NAME_SENT]))
            told.active = goes_on
            if (last := query.lastProgress()) is not None:
                told.batch = last.batchId()
                told.input_rows_s = _rate(last.inputRowsPerSecond)
                told.processed_rows_s = _rate(last.processedRowsPerSecond)
            if not goes_on:
                del self._running[key]
        for key in list(self._queries)[: max(0, len(self._queries) - MOST_QUERIES)]:
            del self._queries[key]
            self._queries_gone += 1

    def _as_told(self, context: Any) -> dict[str, Any]:
        self._supersede()
        for key in sorted(key for key, stage in self._stages.items() if stage.state in _ENDED)[
            : max(0, len(self._stages) - MOST_STAGES)
        ]:
            self._let_go(key)
        stages = sorted(self._stages.values(), key=lambda stage: (stage.state == "running", stage.id, stage.attempt))
        shown = sorted(stages[-MOST_STAGES:], key=lambda stage: (stage.id, stage.attempt))
        machine = context._jvm.java.lang.Runtime.getRuntime()
        return {
            "jobs": {"done": self._jobs_done, "active": len(self._open_jobs), "failed": self._jobs_failed},
            "tasks": {
                "done": self._gone_done + sum(stage.done for stage in stages),
                "active": sum(stage.active for stage in stages),
                "failed": self._gone_failed + sum(stage.failed for stage in stages),
                "total": self._gone_total + sum(stage.total for stage in stages),
            },
            "stages": [asdict(stage) for stage in shown],
            "stages_left_out": self._gone + len(stages) - len(shown),
            "queries": [asdict(query) for query in self._queries.values()],
            "queries_left_out": self._queries_gone,
            "memory_bytes": machine.totalMemory() - machine.freeMemory(),
            "memory_most_bytes": machine.maxMemory(),
        }

    def _supersede(self) -> None:
        """What an attempt left undone its next one does."""
        for number, attempt in self._stages:
            before = self._stages.get((number, attempt - 1))
            if before is not None and before.state == "failed":
                before.total = before.done

    def _let_go(self, key: tuple[int, int]) -> None:
        stage = self._stages.pop(key)
        self._gone += 1
        self._gone_done, self._gone_failed = self._gone_done + stage.done, self._gone_failed + stage.failed
        self._gone_total += stage.total

    def _had(self, ask: Callable[[], Any]) -> Any:
        """``None`` where Spark refuses it: it is forgotten already, or takes too long."""
        try:
            return ask()
        except self._refused:
            return None


def with_place(name: str, home: Path) -> str:
    """``collect at stays/rates.py:12``: what Spark calls a stage, its file as seen from the application's folder
    ``home``, and of one elsewhere the name alone. How the folders of this machine are called is nobody's business."""

    def seen(found: re.Match[str]) -> str:
        path = Path(found[1])
        return str(path.relative_to(home)) if path.is_relative_to(home) else path.name

    return _PLACE.sub(seen, name)


def _newest(found: Any) -> Iterator[Any]:
    """Of a sequence in the JVM, in its order: there the newest comes first."""
    return (found.apply(index) for index in range(found.size()))


def _numbers(found: Any) -> list[int]:
    text = found.mkString(",")
    return [int(word) for word in text.split(",")] if text else []


def _given(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _ms(option: Any) -> int | None:
    at = _given(option)
    return None if at is None else int(at.getTime())


def _rate(ask: Callable[[], float]) -> float:
    """Of a batch that took no time there is none."""
    rate = float(ask())
    return round(rate, 1) if 0 <= rate < float("inf") else 0.0
