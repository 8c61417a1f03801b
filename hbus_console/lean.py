"""Imports heavy packages without what they take along and nobody here uses; whoever sets up logging comes here first.

structlog takes rich along where it is installed, for tracebacks on terminals: 5 MB and a tenth of a second in every
process, of which hbus, whose logs are JSON, shows nothing. httpx takes its own command line, with rich and click.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

__all__ = ["structlog", "without"]

#: Makes an import fail as if the module were not installed.
_NOT_THERE = cast(Any, None)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Within the block these modules cannot be imported, unless they have been: for packages that can do without them.

    Call it before threads run: an import in another one would fail as well.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = _NOT_THERE
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with without("rich"):
    import structlog

# For good: httpx itself is imported where somebody calls a webhook, and none of us runs its command line.
sys.modules.setdefault("httpx._main", _NOT_THERE)
