"""Of what failed in a worker the Python error comes first, without Java's stack and Spark's own frames."""

from __future__ import annotations

from engine.cron.work.spark.bounds import FAILURE_SENT
from engine.cron.work.spark.python_error import python_error

_OF_WORKER = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Task 0 in stage 0.0 failed 1 times: Traceback (most recent call last):
  File "/opt/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "/apps/stays.py", line 17, in rate
    raise ValueError(hotel)
    ^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no rate
for HB-1
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1097)
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
"""


def test_the_error_of_a_worker_comes_first() -> None:
    assert python_error(RuntimeError(_OF_WORKER)).splitlines() == [
        "ValueError: no rate",
        "for HB-1",
        "in a Python worker:",
        '  File "/apps/stays.py", line 17, in rate',
        "    raise ValueError(hotel)",
        "    ^^^^^^^^^^^^^^^^^^^^^^^",
    ]


def test_where_java_failed_its_words_come_without_its_stack() -> None:
    said = "An error occurred while calling o50.load.\n: java.io.IOException: No such bucket\n\tat a.b.C(D.java:1)\n"
    assert python_error(RuntimeError(said)) == (
        "RuntimeError: An error occurred while calling o50.load.\n: java.io.IOException: No such bucket"
    )


def test_a_long_one_is_cut() -> None:
    assert len(python_error(RuntimeError("x" * 2 * FAILURE_SENT))) == FAILURE_SENT


def test_of_a_worker_that_was_asked_by_another_the_innermost_comes_first() -> None:
    outer = _OF_WORKER.replace("ValueError: no rate\nfor HB-1", "RuntimeError: " + _OF_WORKER)
    assert python_error(RuntimeError(outer)).startswith("ValueError: no rate\nfor HB-1\nin a Python worker:")


def test_an_error_whose_text_cannot_be_had_is_one_too() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert "Unspeakable" in python_error(Unspeakable())
