"""``manage.py hotel_partner``: what the channel partner's catalogue holds; adding to it mends the poison message."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from examples.hotel.models import PartnerRoom
from examples.hotel.partner import add_room
from hbus_console.access.command_line import command_line_actor


class Command(BaseCommand):
    help = "Show the room categories the channel partner knows, or add one."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("rooms", help="show the categories")
        add = acts.add_parser("add-room", help="add a category")
        add.add_argument("code")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "rooms":
            for room in PartnerRoom.objects.order_by("code"):
                self.stdout.write(f"{room.code}  added by {room.added_by}")
            return
        code = options["code"].strip().upper()
        made = add_room(command_line_actor(), code)
        self.stdout.write(f"The partner now knows {code}." if made else f"The partner knew {code} already.")
