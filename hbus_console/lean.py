"""Imports structlog without rich; the settings come here first, before anything asks for structlog.

Where rich is installed structlog takes it along, for tracebacks on terminals: 5 MB and a tenth of a second in every
process, of which hbus, whose logs are JSON, shows nothing. Commands that draw with rich import it as ever.
"""

from __future__ import annotations

import sys
from typing import Any, cast

if not {"structlog", "rich"} & sys.modules.keys():
    # Makes the import of it fail until it is taken away.
    sys.modules["rich"] = cast(Any, None)
    try:
        import structlog  # noqa: F401 - for its effect
    finally:
        del sys.modules["rich"]
