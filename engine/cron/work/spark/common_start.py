"""The program of a start that Java watches to share its classes: what most applications do first.

``common_start.py TABLE``: where a table may be written.
"""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
spark.createDataFrame([(1, "a"), (2, "b")], "number int, word string").write.parquet(sys.argv[1])
spark.read.parquet(sys.argv[1]).createOrReplaceTempView("words")
spark.sql("SELECT word, count(*), max(number) FROM words GROUP BY word ORDER BY word").collect()
spark.stop()
