"""Where a shard's buckets are stored: one contract, and the engines that keep it."""
