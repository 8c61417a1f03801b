"""The acts of ``manage.py archive`` about what the lake keeps."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import OutputWrapper

from hbus_console.access.command_line import command_line_actor
from hbus_console.pipelines.erasing import erase_key
from hbus_console.pipelines.keeping import keep
from hbus_console.pipelines.telling import told_of_upkeep
from hbus_console.pipelines.the_lake import begin_anew
from hbus_console.pipelines.upkeep import keep_up
from hbus_console.ui.formats import counted


def add_keeping_acts(acts: Any) -> None:
    """``acts`` are the command's subparsers."""
    days = _act(acts, "keep", "say how long a topic is kept")
    how_long = days.add_mutually_exclusive_group(required=True)
    how_long.add_argument("--days", type=int, help="so many, the present one among them; older ones go for good")
    how_long.add_argument("--all", action="store_true", help="everything, which is so unless said")
    hold = _act(acts, "hold", "put a legal hold on a topic: nothing of it goes")
    hold.add_argument("--case", required=True, help="what for; it is shown wherever something may not go")
    _act(acts, "release", "lift the legal hold")
    erasing = _act(acts, "erase", "forget all that bears an ordering key; it takes a look at every file")
    erasing.add_argument("--key", required=True)
    anew = acts.add_parser("anew", help="begin in an empty folder although there was a lake, which is gone for good")
    anew.add_argument("--reason", required=True)
    acts.add_parser("tend", help="let old days go and make few files of many, now and not with the next run")


def _act(acts: Any, name: str, what: str) -> ArgumentParser:
    parser: ArgumentParser = acts.add_parser(name, help=what)
    parser.add_argument("topic")
    parser.add_argument("--reason", required=True)
    return parser


class KeepingActs:
    """What the command does for each of them."""

    stdout: OutputWrapper

    def _keep(self, options: dict[str, Any]) -> None:
        rules = keep(command_line_actor(), options["topic"], {"keep_days": options["days"]}, options["reason"])
        much = "All" if rules.keep_days is None else f"{counted(rules.keep_days, 'day')}, the present one among them,"
        hold = f" Nothing of it goes while it is held: {rules.hold}" if rules.hold else ""
        self.stdout.write(f"{much} of {options['topic']} is kept.{hold}")

    def _hold(self, options: dict[str, Any]) -> None:
        keep(command_line_actor(), options["topic"], {"hold": options["case"]}, options["reason"])
        self.stdout.write(f"Nothing of {options['topic']} goes from now on: {options['case']}")

    def _release(self, options: dict[str, Any]) -> None:
        keep(command_line_actor(), options["topic"], {"hold": ""}, options["reason"])
        self.stdout.write(f"{options['topic']} is held no longer: what is too old goes with the next run.")

    def _erase(self, options: dict[str, Any]) -> None:
        erased = erase_key(command_line_actor(), options["topic"], options["key"], options["reason"])
        rows = ", ".join(f"{number:,} of {kind}" for kind, number in erased.rows.items())
        self.stdout.write(
            f"Rows taken out: {rows}. The former files are gone in an hour, with the next run. The topic itself and"
            " copies of the lake have them until their own retention ends."
        )

    def _anew(self, options: dict[str, Any]) -> None:
        begin_anew(command_line_actor(), options["reason"])
        self.stdout.write("The next run of the archive begins a new lake where there is none.")

    def _tend(self, options: dict[str, Any]) -> None:
        self.stdout.write("\n".join(told_of_upkeep(keep_up())) or "Nothing was to be done.")
