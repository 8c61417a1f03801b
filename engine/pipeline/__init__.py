"""The data pipeline: what the bus carried, as tables. Needs pyarrow; what runs on Spark needs pyspark too.

A program that Spark runs reads topics by two lines::

    register(spark)
    spark.read.format("hbus").option("topic", "booking.created").load()
"""
