"""``spark.read`` and ``spark.readStream`` of topics: the format ``hbus``."""
