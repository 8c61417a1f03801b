"""Jobs: work at planned instants, each slot decided once."""

from __future__ import annotations

from engine.cron.subjects import JOB, RUN
from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, SubjectKind

JOB_PAUSE = Act("job.pause", Role.OPERATOR, "pause or resume jobs", about=JOB)
JOB_EDIT = Act("job.edit", Role.EDITOR, "make and edit jobs", about=JOB)
JOB_GOVERN = Act("job.govern", Role.GOVERNOR, "hand jobs over", about=JOB)
JOB_DELETE = Act("job.delete", Role.GOVERNOR, "delete jobs", about=JOB)

FEATURE = Feature(
    name="jobs",
    acts=(JOB_PAUSE, JOB_EDIT, JOB_GOVERN, JOB_DELETE),
    subjects=(SubjectKind(JOB, "job"), SubjectKind(RUN, "run", local=True, within=JOB)),
    audit_words={
        "job.create": "created",
        "job.change": "changed",
        "job.restore": "restored",
        "job.delete": "deleted",
        "job.pause": "paused",
        "job.resume": "resumed",
    },
)
