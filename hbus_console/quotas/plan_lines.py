"""The plans of several tenants as a person writes or pastes them: a line each, tenant and plan."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.core.errors import BadInput
from hbus_console.faults import GatheredFaults, faults_of
from hbus_console.quotas.services.plans import PlanWanted

#: Stands for no plan: a line without one is rather one that was cut off.
NO_PLAN = "-"
#: Lines at fault that are told one by one.
MOST_TOLD = 10
_PLACE = re.compile(r"plans\[(\d+)\]")


class PlanLines(NamedTuple):
    """What was written, and in which line each stands."""

    wanted: list[PlanWanted]
    numbers: list[int]


def read_lines(text: str) -> PlanLines:
    """Of each line the plan is its last word, or what is behind a tab, as spreadsheets have it. Empty lines are none.

    Raises :class:`BadInput` for each line without a plan, naming the field ``lines[3]``, as counted from 1.
    """
    faults, found = GatheredFaults(), PlanLines([], [])
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        parts = line.strip().split("\t") if "\t" in line.strip() else line.rsplit(None, 1)
        with faults.gathered():
            if len(parts) != 2 or not all(map(str.strip, parts)):
                raise BadInput(
                    "It does not name one tenant and one plan.",
                    remedy=f"Write both, with a space or a tab between them; {NO_PLAN} for no plan.",
                    field=f"lines[{number}]",
                )
            tenant, plan = (part.strip() for part in parts)
            found.wanted.append(PlanWanted(tenant, "" if plan == NO_PLAN else plan))
            found.numbers.append(number)
    faults.tell()
    return found


def by_line(refused: BadInput, numbers: list[int]) -> dict[str, str]:
    """What a refusal says, by the fields of the form: of entries at fault, each with the number of its line."""
    told: dict[str, str] = {}
    of_lines: dict[int, str] = {}
    for each in faults_of(refused):
        if place := _PLACE.match(each.field):
            of_lines.setdefault(numbers[int(place[1])], _at_line(str(each), numbers))
        elif each.field.startswith("lines["):
            of_lines[int(each.field[6:-1])] = str(each)
        else:
            told["lines" if each.field == "plans" else each.field] = str(each)
    if of_lines:
        first = [f"Line {number}: {of_lines[number]}" for number in sorted(of_lines)[:MOST_TOLD]]
        more = len(of_lines) - len(first)
        told["lines"] = " ".join([*first, f"So do {more:,} more lines not fit."] if more else first)
    return told


def _at_line(text: str, numbers: list[int]) -> str:
    return _PLACE.sub(lambda place: f"line {numbers[int(place[1])]}", text)
