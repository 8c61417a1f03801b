"""A measured process: our own audit of a lake, and what it found as whatever else audits it is to find it."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from engine.pipeline.audit.auditing import Auditor, TopicKnown
from engine.pipeline.audit.report import TopicAudit
from engine.pipeline.audit.tasks import in_threads
from engine.pipeline.lake.lake import Lake
from hbus_console.bench.pipeline_story import SUBSCRIPTION, TOPIC, PipelineStory
from hbus_console.bench.processes import report, wait_for_go

WINDOW_MS = 3_600_000


def figures(audit: TopicAudit) -> dict[str, Any]:
    """What it found, as plain JSON."""
    found: Counter[str] = Counter()
    for finding in audit.findings:
        found[finding.kind] += finding.count
    (of_it,) = [each for each in audit.subscriptions if each.name == SUBSCRIPTION]
    took = of_it.settled_after
    return {
        "findings": dict(found),
        "published": audit.published.messages if audit.published is not None else 0,
        "archived": audit.archived.messages,
        "settled": of_it.outcomes.get("settled", 0),
        "windows": {
            str(each.from_ms): [each.published.messages if each.published else 0, each.archived.messages]
            for each in audit.windows
        },
        "settled_after": [took.p50, took.p95, took.p99, took.p999, took.longest],
    }


def main(task: dict[str, Any]) -> None:
    """``task``: root, events of the story, and how many cores it may use."""
    story, cores = PipelineStory(task["events"]), int(task["cores"])
    auditor = Auditor(Lake(Path(task["root"])), in_threads(cores), cores)
    known = {TOPIC: TopicKnown(complete_ms=story.end_ms)}
    wait_for_go()
    began, spent = time.perf_counter(), time.process_time()
    made = auditor.run([TOPIC], window_ms=WINDOW_MS, known=known)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - spent
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told = {"computed": made.computed, "files": made.files, "planted": story.expected(), **figures(made.topics[0])}
    report(took_s=took_s, cpu_s=cpu_s, most_bytes=most, **told)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
