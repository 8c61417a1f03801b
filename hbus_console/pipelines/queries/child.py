"""The process of one query. It masks as pages do, and has neither Django nor the database."""

from __future__ import annotations

import json

from engine.pipeline.query.child import serve
from engine.pipeline.query.spec import HidingRules
from hbus_console.topics.payloads import MaskingRules, shown_body


def hide(hides: HidingRules, data: str | None, raw: bytes | None) -> str | None:
    """The payload as a page shows it, as JSON text; byte for byte where nothing of it is hidden."""
    rules = MaskingRules(tuple(hides.fields), hides.classification, opaque_hidden=hides.opaque)
    body = raw if raw is not None else (data or "").encode()
    payload = shown_body(body, rules, binary=raw is not None)
    if payload.form == "none":
        return None
    return json.dumps(payload.value, ensure_ascii=False) if payload.hidden else data


if __name__ == "__main__":
    serve(hide)
