"""A child that hides whole payloads; of ``environment`` it says what it knows of that."""

from __future__ import annotations

import json
import os

from engine.pipeline.query.child import serve
from engine.pipeline.query.spec import HidingRules


def hide(rules: HidingRules, data: str | None, raw: bytes | None) -> str | None:
    if rules.classification == "environment":
        return json.dumps(sorted(os.environ))
    return None if data is None and raw is None else f'"{rules.classification}"'


if __name__ == "__main__":
    serve(hide)
