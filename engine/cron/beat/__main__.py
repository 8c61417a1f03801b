"""``python -m engine.cron.beat MODULE:APP FILE``: what the periodic entries of an app say, as JSON in ``FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from celery import Celery
from kombu.utils.imports import symbol_by_name

from engine.core.error_text import text_of
from engine.core.errors import BadInput
from engine.cron.beat.reading import BeatReading, read_app


def load(named: str) -> Any:
    """The app, with the modules that it names. Raises ``BadInput``."""
    try:
        app = symbol_by_name(named)
        if isinstance(app, Celery):
            app.loader.import_default_modules()
            app.finalize()
    except (Exception, SystemExit) as error:
        # Whatever a module of others does while it is imported.
        what = f"{named} cannot be loaded: {text_of(error)}."
        raise BadInput(what, remedy="Run it where celery -A would find it, or set PYTHONPATH.", field="app") from error
    if not isinstance(app, Celery):
        raise BadInput(
            f"{named} is a {type(app).__name__}, and no Celery app.", remedy="Write MODULE:APP.", field="app"
        )
    return app


def main(words: Sequence[str]) -> int:
    named, file = words
    try:
        reading = read_app(load(named))
    except BadInput as error:
        reading = BeatReading()
        reading.refuse("", error)
    Path(file).write_text(json.dumps(asdict(reading)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
