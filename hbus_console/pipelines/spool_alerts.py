"""What alert rules may watch of the spools: what was spooled and is not archived, and the disk on which they lie."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog

from engine.core.error_text import words_of
from engine.core.errors import HbusError
from engine.cron.subjects import job_subject
from engine.pipeline.spool.leaving import spools_in
from engine.pipeline.spool.reading import LOG
from engine.pipeline.spool.waiting import OldestWaiting
from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.targets import Target, TargetKind, Way
from hbus_console.jobs.models import Job
from hbus_console.pipelines.feature import JOB
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.spools import has_spool, spool_root
from hbus_console.pipelines.the_lake import lake
from hbus_console.registry.pages import page

#: Names of the two kinds.
WAITS, DISK = "spool_waits", "spool_disk"
_log = structlog.get_logger(__name__)


def _spooled() -> list[str]:
    """Archived topics that have a spool; no query where there is none."""
    if not spools_in(spool_root()):
        return []
    names = ArchivedTopic.objects.order_by("topic__name").values_list("topic__name", flat=True)
    return [name for name in names if has_spool(name)]


def _targets() -> Iterable[Target]:
    """The job that archives stands for all spools, also where somebody has deleted it: it is what empties them."""
    if _spooled():
        team = Job.objects.filter(name=JOB).values_list("team_id", flat=True).first()
        yield Target(job_subject(JOB), team, False, 0)


def _waits(case: Case) -> float | None:
    """Seconds; below every threshold where nothing waits; of what cannot be read nobody knows."""
    found = case.round.once(_oldest_ms)
    if found.oldest_ms:
        return max(0.0, (case.round.now_ms - found.oldest_ms) / 1000)
    return -1.0 if found.known else None


@dataclass(frozen=True, slots=True)
class OldestFound:
    """Since when the oldest message waits; 0: none does, as far as is ``known``."""

    oldest_ms: int
    known: bool


def _oldest_ms(now: Round) -> OldestFound:
    return now.kept(OldestOfAll).read()


@dataclass
class OldestOfAll:
    """Over all spools. Not for several threads."""

    _looks: dict[str, OldestWaiting] = field(default_factory=dict)

    def read(self) -> OldestFound:
        """Raises ``LakeDamaged``."""
        state, topics = lake().state(), _spooled()
        for topic in set(self._looks) - set(topics):
            self._looks.pop(topic).close()
        oldest: list[int] = []
        known = True
        for topic in topics:
            reached = state.reached(topic).get(LOG)
            life, upto = (reached.life, int(reached.at or 0)) if reached is not None else ("", 0)
            look = self._looks.setdefault(topic, OldestWaiting(spool_root(), topic))
            try:
                oldest.append(look.since_ms(life, upto))
            except (HbusError, OSError) as error:
                # The run of the archive names what is wrong with it, and fails.
                _log.warning("spool_not_weighed", topic=topic, error=words_of(error))
                known = False
        return OldestFound(min(filter(None, oldest), default=0), known)


def _disk(case: Case) -> float:
    """In percent, as ``df`` reckons it: what is kept for root is nobody's."""
    usage = shutil.disk_usage(spool_root())
    return 100 * usage.used / (usage.used + usage.free)


SPOOLS = TargetKind(
    "spool",
    _targets,
    ways=(Way(("archive",), "Open the archive", lambda _: page("pipelines:archive")),),
)

KINDS = (
    AlertKind(
        name=WAITS,
        title="The spool waits to be archived",
        unit="seconds",
        says="has left what is spooled unarchived for",
        help="How long the oldest message of all spools has waited to be archived: what NSQ carried lies on disk until"
        " it is in the archive.",
        targets=SPOOLS,
        measure=_waits,
        told=lambda value: True,
        usual=900,
        absent="all of it is archived",
        place=96,
        defaults=(
            DefaultRule(
                "What NSQ carried is not archived",
                900,
                "Is the job that archives paused, does it fail, or has no worker begun it? Resume it, or mend what the"
                " log of its last run says. Nothing is lost meanwhile, but the spools grow: the page of the archive"
                " says what waits.",
            ),
        ),
    ),
    AlertKind(
        name=DISK,
        title="The disk of the spool is full",
        unit="percent",
        says="archives from a spool on a disk that is full to",
        help="How full the disk is on which the spools lie, with the archive, in percent of what a program may use."
        " When nothing more fits, nothing is spooled, and nsqd keeps what comes.",
        targets=SPOOLS,
        measure=_disk,
        told=lambda value: True,
        usual=90,
        place=97,
        defaults=(
            DefaultRule(
                "The disk of the spool runs short",
                90,
                "Enlarge the disk of HBUS_LAKE, or have the archive keep less: its page says how long each topic stays."
                " What is archived leaves the spools an hour after it came.",
                severity="critical",
                clear_below=88,
            ),
        ),
    ),
)
