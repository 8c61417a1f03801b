#!/usr/bin/env python
"""The operator's tool: every verb of hbus is a management command."""

from __future__ import annotations

import os
import sys

from engine.core.errors import HbusError


def main() -> int:
    """Run one command. Whatever hbus refuses is said in one line and ends with 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
    import redis
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except HbusError as error:
        return _refuse(str(error))
    except redis.ConnectionError as error:
        return _refuse(f"The store does not answer ({error}). Is hbus running? Start it with `make run`.")
    except KeyboardInterrupt:
        return 130
    return 0


def _refuse(sentence: str) -> int:
    print(f"hbus: {' '.join(sentence.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
