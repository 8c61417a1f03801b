"""Every kind of work there is."""

from __future__ import annotations

from hbus_console.jobs.kinds.celery import CeleryKind
from hbus_console.jobs.kinds.command import CommandKind
from hbus_console.jobs.kinds.elsewhere import ElsewhereKind
from hbus_console.jobs.kinds.function import FunctionKind
from hbus_console.jobs.kinds.http import HttpKind
from hbus_console.jobs.kinds.kind import WorkKind
from hbus_console.jobs.kinds.publish import PublishKind
from hbus_console.jobs.kinds.spark import SparkKind

_ALL: tuple[WorkKind, ...] = (
    FunctionKind(),
    PublishKind(),
    HttpKind(),
    CommandKind(),
    SparkKind(),
    CeleryKind(),
    ElsewhereKind(),
)
KINDS: dict[str, WorkKind] = {kind.name: kind for kind in _ALL}
