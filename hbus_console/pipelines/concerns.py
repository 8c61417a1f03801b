"""What of the archive needs a person: spools that nobody empties, and what keeps them from it, in one line."""

from __future__ import annotations

from engine.core.error_text import shortened
from engine.cron.slots.steps import RunState
from engine.cron.subjects import job_subject
from hbus_console.alerts.concerns import firing, since
from hbus_console.alerts.models import Alert, Rule
from hbus_console.alerts.wording import measured
from hbus_console.jobs.models import Job, JobRun
from hbus_console.pipelines.feature import JOB
from hbus_console.pipelines.spool_alerts import DISK, WAITS
from hbus_console.registry.pages import page
from hbus_console.ui.concern import Concern, Incident, Look, at

#: What of a run's error a line has room for.
MOST_SAID = 160


def concerns(look: Look) -> list[Concern]:
    """One line for both alerts about spools; two queries while one fires."""
    alerts = {alert.kind: alert for alert in look.once(firing) if alert.kind in (WAITS, DISK)}
    return at(63, [_line(alerts)] if alerts else [])


def _line(alerts: dict[str, Alert]) -> Concern:
    waits, disk = alerts.get(WAITS), alerts.get(DISK)
    cause, remedy, link = _cause() if waits else ("", "", ("Open archive", page("pipelines:archive")))
    said: list[str] = []
    if waits:
        said += [f"the oldest has waited for {measured(waits)}{since(waits.fired_ms)}", cause, remedy]
    if disk:
        said.append(f"its disk is full to {measured(disk)}{since(disk.fired_ms)}")
        said.append("enlarge it, or have the archive keep less: once nothing fits, nsqd keeps what comes")
    text = "What NSQ carried is spooled and not archived" if waits else "The disk of the spool runs short"
    tone = "bad" if any(alert.severity == Rule.Severity.CRITICAL for alert in alerts.values()) else "warn"
    label, address = link
    return Concern(
        tone, text, " · ".join(said), address, label, incident=Incident(job_subject(JOB), "spool"), aside=text
    )


def _cause() -> tuple[str, str, tuple[str, str]]:
    """Why nobody empties them, what to do, and where."""
    job = Job.objects.filter(name=JOB).first()
    if job is None:
        remedy = "have any topic archived again, which makes it anew"
        return f"there is no job {JOB}", remedy, ("Open archive", page("pipelines:archive"))
    here = ("Open job", page("jobs:detail", JOB))
    if job.held:
        return f"{JOB} is held: {job.held}", "resume it, or name its owner", here
    newest = JobRun.objects.filter(job=JOB).exclude(state=RunState.SKIPPED).order_by("-slot", "-pk")
    last = newest.exclude(ended_us=None).first()
    current = newest.filter(ended_us=None).last()
    if current is not None and current.state == RunState.CLAIMED:
        return f"run {current.pk} waits for a worker", "start one, or stop what keeps all busy", here
    if last is not None and last.state != RunState.DONE:
        return f"run {last.pk} {last.state}: {shortened(last.reason, MOST_SAID)}", "mend what its log says", _run(last)
    if current is not None:
        return f"run {current.pk} is under way", "look at its log for how far it is", _run(current)
    return f"{JOB} has no run under way", "is a cron node alive, and does its schedule come?", here


def _run(run: JobRun) -> tuple[str, str]:
    return "Open run", page("jobs:run", JOB, str(run.pk))
