"""How far the Spark application of a run is, as its page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cron.slots.steps import RunState
from engine.cron.work.spark.progress import SparkQuery, SparkStage
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.progress import KeptProgress
from hbus_console.ui import formats

#: So many of the newest stages are shown at once, above the log; the earlier ones are folded.
AT_ONCE = 12
_MIB = 1024 * 1024
#: By how a stage stands: the word, and its tone.
_STANDS = {"waits": ("waits", ""), "running": ("running", "info"), "done": ("done", "ok"), "failed": ("failed", "bad")}
#: The same once nothing of the attempt runs any more.
_STOOD = {**_STANDS, "waits": ("not begun", ""), "running": ("cut off", "warn")}


@dataclass(frozen=True)
class StageLine:
    """One attempt of one stage."""

    stage: SparkStage
    word: str
    tone: str
    #: ``None``: it has not begun.
    took_us: int | None

    @property
    def again(self) -> int:
        """Which attempt of the stage it is, where it is not the first; 0: it is."""
        return self.stage.attempt and self.stage.attempt + 1


@dataclass(frozen=True)
class ShownProgress:
    """What is told of one run."""

    done: int
    total: int
    #: What stands beside the bar.
    notes: list[str]
    #: Whether anything of it runs now.
    moves: bool
    #: It ended before it was through: nobody knows how many tasks it would have come to.
    cut_off: bool
    earlier: list[StageLine]
    stages: list[StageLine]
    stages_left_out: int
    queries: list[SparkQuery]
    queries_left_out: int


def shown_progress(run: JobRun, kept: KeptProgress | None, timeout_s: int, now_us: int) -> ShownProgress | None:
    """``None`` where there is nothing to see. ``timeout_s``: how long an attempt may take; 0: as long as it does."""
    if kept is None or not kept.said.has_begun:
        return None
    said, of_this = kept.said, kept.attempt == run.attempt
    moves = of_this and run.state == RunState.RUNNING
    cut_off = not (moves or (of_this and run.state == RunState.DONE))
    # Times are of the driver's machine, and so is when it told them: no other clock is asked.
    stages = [_line(stage, kept.at_us, moves=moves) for stage in said.stages]
    return ShownProgress(
        done=said.tasks.done,
        total=said.tasks.total,
        notes=_notes(run, kept, timeout_s, now_us, moves=moves, cut_off=cut_off),
        moves=moves,
        cut_off=cut_off,
        earlier=stages[:-AT_ONCE],
        stages=stages[-AT_ONCE:],
        stages_left_out=said.stages_left_out,
        queries=said.queries,
        queries_left_out=said.queries_left_out,
    )


def _notes(run: JobRun, kept: KeptProgress, timeout_s: int, now_us: int, *, moves: bool, cut_off: bool) -> list[str]:
    tasks, said = kept.said.tasks, kept.said
    notes = [] if kept.attempt == run.attempt else [f"of attempt {kept.attempt}"]
    if tasks.total and not cut_off:
        notes.append(f"{tasks.done * 100 // tasks.total} %")
    if moves and tasks.active:
        notes.append(f"{formats.num(tasks.active)} running")
    if tasks.failed:
        notes.append(f"{formats.counted(tasks.failed, 'task')} failed")
    if said.jobs.failed:
        notes.append(f"{formats.counted(said.jobs.failed, 'job')} failed")
    if moves and timeout_s and run.begun_us is not None:
        left_us = run.begun_us + timeout_s * 1_000_000 - now_us
        notes.append(f"timeout in {formats.duration(left_us)}" if left_us > 0 else "its time is over")
    if moves and said.memory_bytes is not None and said.memory_most_bytes:
        used, most = (formats.num(size // _MIB) for size in (said.memory_bytes, said.memory_most_bytes))
        notes.append(f"memory {used} of {most} MiB")
    return notes


def _line(stage: SparkStage, at_us: int, *, moves: bool) -> StageLine:
    word, tone = (_STANDS if moves else _STOOD)[stage.state]
    took_us = None
    if stage.began_ms is not None:
        ended_us = at_us if stage.ended_ms is None else stage.ended_ms * 1_000
        took_us = max(0, ended_us - stage.began_ms * 1_000)
    return StageLine(stage, word, tone, took_us)
