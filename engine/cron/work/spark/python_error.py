"""What a person looks for when an application has failed: the Python error, without the stacks of Java and of Spark."""

from __future__ import annotations

import re
import traceback
from itertools import takewhile

from engine.core.error_text import TEXT_LIMIT, words_of
from engine.cron.work.spark.bounds import FAILURE_SENT

_BEGINS = "Traceback (most recent call last):"
#: A frame, with the line of code and the marks under it.
_FRAME = re.compile(r'  File "([^"]*)", line \d+, in .*(?:\n    .*)*')
#: Where Java begins to speak.
_JAVA = re.compile(r"\n(?:\s+at [\w.$]|\tat |Driver stacktrace:|JVM stacktrace:| SQLSTATE:)")
#: Code that is not the application's.
_SPARK = ("/pyspark/", "/py4j/", "<frozen ")


def python_error(error: Exception) -> str:
    """Its last line first, then where: in the worker, if it was one that failed, and in the driver."""
    said = words_of(error, 2 * TEXT_LIMIT)
    parts = []
    if _BEGINS in said:
        # The innermost: Spark puts one around the other.
        inner = _JAVA.split(said[said.rindex(_BEGINS) + len(_BEGINS) :], maxsplit=1)[0]
        frames = list(_FRAME.finditer(inner))
        words = inner[frames[-1].end() :] if frames else inner
        parts.append(("in a Python worker:", [each[0] for each in frames if not _is_sparks(each[1])]))
    else:
        words = _JAVA.split("".join(traceback.format_exception_only(error)), maxsplit=1)[0]
    # Behind Spark's own frames it has put those of the worker.
    here = takewhile(lambda each: not _is_sparks(each.filename), traceback.extract_tb(error.__traceback__))
    parts.append(("in the driver:", [text.rstrip("\n") for text in traceback.format_list(list(here))]))
    lines = [words.strip(), *(line for title, frames in parts if frames for line in (title, *frames))]
    return "\n".join(lines)[:FAILURE_SENT]


def _is_sparks(file: str) -> bool:
    return any(part in file for part in _SPARK)
