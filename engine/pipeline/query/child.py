"""The process of one query: a spec comes in, an answer goes out, and then it is gone.

It ends when its time is over, and when whoever began it is gone: nobody need be there to end it.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import duckdb
import msgspec

from engine.core.prepared import prepared
from engine.pipeline.lake.state import Kind
from engine.pipeline.query.answering import NotRun, answer, check, said
from engine.pipeline.query.hiding import Hide, hidden_copy
from engine.pipeline.query.sealed import sealed
from engine.pipeline.query.spec import FOLDER, QueryAnswer, QuerySpec

#: Of its address space: what DuckDB may take, pyarrow and the libraries of both; of one copy, and of all, bytes.
_MOST_MEMORY, _MOST_COPY, _MOST_COPIES = 2 << 30, 1 << 30, 2 << 30
_NO_MEMORY = "It takes more memory than a query may have. Ask for fewer days, columns or groups."
#: How long after its time it is gone by itself, seconds.
_GRACE_S = 2.0


def serve(hide: Hide) -> None:
    """Read one spec from the standard input, a line of JSON, and answer it on the standard output. The working folder
    is its own, and empty."""
    source, out = sys.stdin.buffer, os.dup(1)
    # What a library might print is no part of the answer.
    os.dup2(2, 1)
    spec = msgspec.json.decode(source.readline(), type=prepared(QuerySpec))
    _bounded(spec, source)
    with open(out, "wb") as target:
        # It begins: what it took until here is nobody's query.
        target.write(b"\n")
        target.flush()
        target.write(msgspec.json.encode(_answer(spec, hide)))


def _bounded(spec: QuerySpec, source: BinaryIO) -> None:
    # It watches in a thread of C, so nothing that holds the interpreter keeps it from ending this.
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(spec.seconds + _GRACE_S, exit=True, file=os.dup(nowhere.fileno()))
    threading.Thread(target=_end_with, args=(source,), daemon=True).start()
    for what, most in (
        (resource.RLIMIT_AS, _MOST_MEMORY),
        (resource.RLIMIT_FSIZE, _MOST_COPY),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def _end_with(source: BinaryIO) -> None:
    with suppress(OSError, ValueError):
        source.read()
    # Whoever would have removed its folder is gone. Begun in any other, nothing is removed.
    if (folder := Path.cwd()).name.startswith(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _answer(spec: QuerySpec, hide: Hide) -> QueryAnswer:
    try:
        if spec.parse_only:
            check(spec.sql)
            return QueryAnswer()
        check(spec.sql)
        files: dict[Kind, list[str]] = {}
        copied = 0
        for number, file in enumerate(spec.files):
            name = f"{number}.parquet"
            if file.hides is not None:
                copied += hidden_copy(file, Path(name), hide)
                if copied > _MOST_COPIES:
                    raise NotRun("Too much of it is masked for one query. Ask for fewer days or topics.")
            else:
                # What a view says of itself is to tell nothing of where files lie.
                Path(name).symlink_to(file.path)
            files.setdefault(file.kind, []).append(name)
        opened = sealed(files)
        # From here on it writes no file at all.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        return answer(opened, spec)
    except NotRun as error:
        return QueryAnswer(error=str(error))
    except (MemoryError, duckdb.OutOfMemoryException):
        return QueryAnswer(error=_NO_MEMORY)
    except duckdb.Error as error:
        return QueryAnswer(error=said(error))
    except OSError as error:
        # Such as a file that was let go of since. What pyarrow says of it tells where it lay.
        why = os.strerror(error.errno) if error.errno else "it is not as it was committed"
        return QueryAnswer(error=f"A file of the archive cannot be read: {why}.")
