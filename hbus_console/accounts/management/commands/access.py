"""``manage.py access list|add|reset``: users from the machine itself, for who cannot sign in."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from engine.core.errors import HbusError, NotThere
from hbus_console.access.acts import Role
from hbus_console.access.command_line import command_line_actor
from hbus_console.access.permissions import ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User


class Command(BaseCommand):
    help = "List users, add one, or reset a password. Passwords are printed once and stored nowhere."

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("list", help="users with their roles")
        add = acts.add_parser("add", help="add a user")
        add.add_argument("name")
        add.add_argument("--role", choices=[role.value for role in Role], default=Role.VIEWER.value)
        add.add_argument("--scope", default="*", help="*, booking.* or one exact name")
        reset = acts.add_parser("reset", help="reset a password; opens a deactivated account again")
        reset.add_argument("name")
        reset.add_argument("--reason", default="", help="why; stands in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["act"]:
                case "list":
                    self._list()
                case "add":
                    grant = ScopedRole(Role(options["role"]), options["scope"])
                    made = services.create_user(command_line_actor(), options["name"], [grant])
                    self.stdout.write(f"{made.user.username} signs in first with: {made.password}")
                case _:
                    self._reset(options["name"], options["reason"])
        except HbusError as error:
            raise CommandError(str(error), returncode=2) from error

    def _list(self) -> None:
        for user in User.objects.prefetch_related("grants").order_by("username").iterator(chunk_size=200):
            roles = ", ".join(f"{grant.role} on {grant.scope}" for grant in user.grants.all()) or "no role"
            self.stdout.write(f"{user.username}  {roles}{'' if user.is_active else '  (deactivated)'}")

    def _reset(self, name: str, reason: str) -> None:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise NotThere(f"There is no user {name!r}.", remedy="`manage.py access list` shows them.", field="name")
        actor = command_line_actor()
        services.reactivate_user(actor, user, reason)
        password = services.reset_password(actor, user, reason)
        self.stdout.write(f"{name} signs in with: {password}")
