#!/usr/bin/env python
"""The operator's tool: every verb of hbus is a management command."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from engine.core.errors import HbusError

#: Commands of an app that is installed for them alone.
MEASURING = "hbus_console.bench"
MEASUREMENTS = {"bench", "growth", "soak", "walls"}


def main() -> int:
    """Run one command. Whatever hbus refuses is said in one line and ends with 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
    # Databases, keys, logs, backups: whatever is made from here on, by the roles too, is for this account alone.
    os.umask(0o077)
    try:
        return _run()
    except HbusError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return 130
    except _away() as error:
        return _refuse(f"The store does not answer ({error}). Is hbus running? Start it with `make run`.")


def _run() -> int:
    if sys.argv[1:2] == ["supervise"]:
        # What `up` becomes: without Django, which would be most of what the process weighs.
        from hbus_console.supervisor.supervise import main as supervise

        return supervise(int(sys.argv[2]))
    if sys.argv[1:2] == ["restore"]:
        # Settings would make the keys of an installation that is to come with its own.
        from hbus_console.supervisor.restore import main as restore

        return restore(sys.argv[2:])
    # Settings would make what is not there, too.
    from hbus_console.command_needs import look_first

    look_first(sys.argv[1:])
    if sys.argv[1:] == ["help"]:
        # Loading every model takes four times as long as finding the commands.
        from hbus_console.listing import listing

        with suppress(ImportError):
            print(listing(os.path.basename(sys.argv[0]), MEASURING))
            return 0
    # Not at the top, because neither of the above needs it.
    import django
    from django.conf import settings
    from django.core.management import execute_from_command_line

    if MEASUREMENTS.intersection(sys.argv[1:3]):
        settings.INSTALLED_APPS.append(MEASURING)
    # What is imported stays: looking for garbage in it would be a tenth of the start.
    gc.disable()
    # Not at the top, because the supervisor and the list of commands do without it.
    from hbus_console.installed import load_packages

    load_packages()
    django.setup()
    gc.freeze()
    gc.enable()
    execute_from_command_line(sys.argv)
    return 0


def _away() -> type[Exception]:
    """What a client raises whose store does not answer; asked for only once something was raised."""
    # No command that goes well needs it for this.
    import redis

    return redis.ConnectionError


def _refuse(sentence: str) -> int:
    print(f"hbus: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
