"""Of which keys an archived topic had the most messages: an application for jobs of the kind ``spark``.

Its parameters are ``lake``, the folder of the archive, and ``topic``.
"""

from __future__ import annotations

import json
import os

from pyspark.sql import SparkSession

from engine.pipeline.lake.frames import archived


def main(lake: str, topic: str) -> None:
    with SparkSession.builder.getOrCreate() as spark:
        counts = archived(spark, topic, lake).where("partitionkey is not null").groupBy("partitionkey").count()
        for key, count in counts.orderBy("count", "partitionkey", ascending=[False, True]).limit(10).collect():
            print(f"{key}: {count:,} messages")


main(**json.loads(os.environ["HBUS_PARAMETERS"]))
