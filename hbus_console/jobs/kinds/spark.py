"""A PySpark application, of those in the folder that whoever runs this installation names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

from engine.core.errors import BadInput, ConfigurationError
from engine.cron.work.call import RunContext, WorkOutcome
from engine.cron.work.spark.applications import APPLICATIONS, MODULES, ApplicationFolder
from engine.cron.work.spark.conf import check_conf, check_lines
from engine.cron.work.spark.submit import Submission, run_application
from hbus_console.access.permissions import Actor, require
from hbus_console.jobs.feature import JOB_COMMAND
from hbus_console.jobs.kinds.kind import WorkSpec, list_option, only, texts_option
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.progress import ProgressKeeper
from hbus_console.wiring.spark import SparkBeingFetched, installed_spark, shared_classes


def scratch() -> Path:
    """Where the folders lie that applications work in."""
    return Path(settings.STATE) / "spark"


class SparkKind:
    """``target`` is its file in that folder. Where it runs is never the job's to say."""

    name = WorkName.SPARK.value
    words = "a Spark application"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        # Before anything is looked for: nobody else learns by it what lies in the folder.
        require(actor, JOB_COMMAND)
        only(spec, "conf", "args", "py_files")
        try:
            self._submission(spec)
            installed_spark()
        except ConfigurationError as error:
            raise BadInput(error.what, remedy=error.remedy, field="kind") from error

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        require(actor, JOB_COMMAND)
        try:
            wanted, spark = self._submission(spec), installed_spark()
        except SparkBeingFetched as error:
            return WorkOutcome(False, f"{error.what} {error.remedy}")
        except (BadInput, ConfigurationError) as error:
            return WorkOutcome(False, f"{error.what} {error.remedy}", again=False)
        keep, options = ProgressKeeper(context.call).keep, shared_classes().options(spark)
        return run_application(context, spark, wanted, scratch(), keep, java_options=options)

    def _submission(self, spec: WorkSpec) -> Submission:
        if not settings.HBUS_SPARK_APPS:
            raise ConfigurationError(
                "No folder is named whose Spark applications jobs may run.",
                remedy="Whoever runs this installation names one in HBUS_SPARK_APPS, for example /srv/spark-apps.",
                field="HBUS_SPARK_APPS",
            )
        folder = ApplicationFolder(Path(settings.HBUS_SPARK_APPS).expanduser(), "HBUS_SPARK_APPS")
        conf, args = texts_option(spec, "conf"), list_option(spec, "args")
        check_conf(conf)
        check_lines("args", args)
        return Submission(
            folder.file(spec.target, APPLICATIONS, "target"),
            conf,
            args,
            [folder.file(name, MODULES, "options") for name in list_option(spec, "py_files")],
            settings.HBUS_SPARK_MASTER,
        )
