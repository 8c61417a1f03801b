"""How many nights were booked of each hotel by the month of arrival, and how many of these were cancelled: an
application for jobs of the kind ``spark``, over the archive of the topics of the example.

Its parameter ``lake`` is the folder of the archive.
"""

from __future__ import annotations

import json
import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, lit
from pyspark.sql.functions import sum as total

from engine.pipeline.lake.frames import archived
from engine.pipeline.payloads import with_payload

TEXT = {"type": "string"}
STAY = {"type": "object", "properties": {"arrival": TEXT, "nights": {"type": "integer"}}}
CREATED = {"type": "object", "properties": {"booking_id": TEXT, "hotel": TEXT, "stay": STAY}}
CANCELLED = {"type": "object", "properties": {"booking_id": TEXT, "released": STAY}}


def once(messages: DataFrame) -> DataFrame:
    """Each event once: a message that was replayed is a copy, and one may be stored twice."""
    return messages.where("hbusreplay is null").dropDuplicates(["source", "id"])


def main(lake: str) -> None:
    with SparkSession.builder.getOrCreate() as spark:
        created = with_payload(once(archived(spark, "booking.created", lake)), CREATED)
        cancelled = with_payload(once(archived(spark, "booking.cancelled", lake)), CANCELLED)
        released = cancelled.groupBy("payload.booking_id").agg(total("payload.released.nights").alias("released"))
        nights = (
            created.join(released, created.payload.booking_id == released.booking_id, "left")
            .groupBy(col("payload.hotel").alias("hotel"), col("payload.stay.arrival").substr(1, 7).alias("month"))
            .agg(total("payload.stay.nights").alias("booked"), total(coalesce("released", lit(0))).alias("released"))
        )
        for row in nights.orderBy("hotel", "month").collect():
            print(f"{row.hotel}, {row.month}: {row.booked:,} nights booked, {row.released:,} of them cancelled")


main(**json.loads(os.environ["HBUS_PARAMETERS"]))
