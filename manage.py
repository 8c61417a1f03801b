#!/usr/bin/env python
"""The operator's tool: every verb of hbus is a management command."""

from __future__ import annotations

import os
import sys

from engine.core.errors import HbusError


def main() -> int:
    """Run one command. Whatever hbus refuses is said in one line and ends with 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
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
    # Not at the top, because the supervisor lives without it.
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


def _away() -> type[Exception]:
    """What a client raises whose store does not answer; asked for only once something was raised."""
    import redis

    return redis.ConnectionError


def _refuse(sentence: str) -> int:
    print(f"hbus: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
