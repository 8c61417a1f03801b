"""What a file of jobs would change, in the order in which it can be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from engine.core.errors import BadInput
from hbus_console.jobs.following import read_after
from hbus_console.jobs.models import Job, JobAfter
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.secrets import WHERE


@dataclass(frozen=True)
class PlannedChange:
    """What is to become of one job: ``create``, ``change``, ``delete``, or ``same``."""

    name: str
    act: str
    draft: JobDraft | None = None
    #: Setting, what it is, what it is to be, as they may be shown.
    differs: tuple[tuple[str, Any, Any], ...] = ()

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that differ, as the file says them; and the secrets that these would carry, for it says them."""
        differ = [name for name, _, _ in self.differs]
        along = () if set(WHERE).isdisjoint(differ) else ("parameters",)
        return {name: getattr(self.draft, name) for name in (*differ, *along)}


def in_order(planned: Sequence[PlannedChange]) -> list[PlannedChange]:
    """What others run after is made and changed before these, and deleted behind them; deletions come last.

    Raises ``BadInput`` where a job would run after one that is not there, or after itself.
    """
    goes = {each.name for each in planned if each.act == "delete"}
    after = {each.name: _after(each.draft) for each in planned if each.draft is not None}
    were: dict[str, set[str]] = {}
    for name, upstream in JobAfter.objects.values_list("job__name", "upstream"):
        were.setdefault(name, set()).add(upstream)
    stay = {name: upstream for name, upstream in were.items() if name not in goes and name not in after}
    _refuse_missing(stay | after, goes)
    place = {name: number for number, name in enumerate(_sorted(stay | after))}
    made = sorted((each for each in planned if each.name in after), key=lambda each: place[each.name])
    back = {name: number for number, name in enumerate(_sorted({name: were.get(name, set()) for name in goes}))}
    deleted = sorted((each for each in planned if each.name in goes), key=lambda each: -back[each.name])
    return made + deleted


def _after(draft: JobDraft) -> set[str]:
    return {each.job for each in read_after(draft.after)}


def _refuse_missing(after: dict[str, set[str]], goes: set[str]) -> None:
    there = set(Job.objects.values_list("name", flat=True)) - goes | after.keys()
    for name, upstream in after.items():
        for missing in sorted(upstream - there):
            what = "would be deleted" if missing in goes else "is neither in the file nor there"
            raise BadInput(
                f"{name} runs after {missing}, which {what}.",
                remedy="Say both in the file, or leave it out of after.",
                field=f"jobs.{name}.after",
            )


def _sorted(after: dict[str, set[str]]) -> list[str]:
    """Each behind what it runs after."""
    try:
        return list(TopologicalSorter(after).static_order())
    except CycleError as error:
        # It names them from what is run after to what runs after it.
        way = [str(name) for name in reversed(error.args[1])]
        raise BadInput(
            f"{way[0]} would run after itself: {' runs after '.join(way)}.",
            remedy="Leave one of them out.",
            field=f"jobs.{way[0]}.after",
        ) from error
