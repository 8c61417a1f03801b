"""The lake: what the bus carried, in Parquet files that never change, and a log of commits that says which count."""
