"""What is told of a job that somebody may not see, where one that they may see runs after it: that there is one."""

from __future__ import annotations

from typing import NamedTuple

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.jobs.following import After, read_after
from hbus_console.jobs.models import JobRun

#: In place of its name. No job is called so, and no line of what a job runs after begins so by itself.
ANOTHER = "another job"
#: Before the name of the job in who asked for a run that follows one.
_BY = "job "


class Asked(NamedTuple):
    """Who or what a run is there for, and why."""

    by: str
    why: str


def shown_after(who: Actor, text: str) -> str:
    """What a job runs after, as ``who`` may see it. Given back as it is, it is what it was: :func:`restored_after`."""
    return "\n".join(f"{name_for(who, each)} {each.ended}" for each in read_after(text))


def name_for(who: Actor, upstream: After) -> str:
    """The name of the job, where ``who`` may see it."""
    return upstream.job if allows(who, VIEW, upstream.job) else ANOTHER


def restored_after(who: Actor, typed: str, before: str) -> str:
    """``typed`` with each :data:`ANOTHER` as the job that ``before`` names there, unseen by ``who``.

    Of several, in their order, first one that is followed by the same word. Raises ``BadInput`` where none is left.
    """
    hidden = [each for each in read_after(before) if not allows(who, VIEW, each.job)]
    found = []
    for line in typed.splitlines():
        words = line.split()
        if " ".join(words[:2]) != ANOTHER:
            found.append(line)
            continue
        if not hidden:
            raise BadInput(
                f"{ANOTHER!r} stands for one that is not known here.", remedy="Write the job's name.", field="after"
            )
        meant = next((each for each in hidden if [each.ended] == words[2:]), hidden[0])
        hidden.remove(meant)
        found.append(" ".join([meant.job, *words[2:]]))
    return "\n".join(found)


def asked(who: Actor, run: JobRun) -> Asked:
    """Who asked for a run and why, as ``who`` may see it."""
    if run.kind != JobRun.Kind.AFTER or allows(who, VIEW, run.asked_by.removeprefix(_BY)):
        return Asked(run.asked_by, run.asked_why)
    ended = run.asked_why.rpartition(" ended: ")[2]
    return Asked(ANOTHER, f"a run of {ANOTHER} ended: {ended}")
