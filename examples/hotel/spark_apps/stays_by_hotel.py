"""How many stays each hotel had, and of how many nights: an application for jobs of the kind ``spark``.

Its parameter ``bookings`` is the path of a file of bookings, plain or gzip, whose columns the README names.
"""

from __future__ import annotations

import json
import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count
from pyspark.sql.functions import sum as total


def main(bookings: str) -> None:
    with SparkSession.builder.getOrCreate() as spark:
        nights = col("stays_in_weekend_nights").cast("int") + col("stays_in_week_nights").cast("int")
        stays = spark.read.csv(bookings, header=True).where(col("reservation_status") == "Check-Out")
        for hotel in stays.groupBy("hotel").agg(count("*"), total(nights)).orderBy("hotel").collect():
            print("{}: {:,} stays, {:,} nights".format(*hotel))


main(**json.loads(os.environ["HBUS_PARAMETERS"]))
