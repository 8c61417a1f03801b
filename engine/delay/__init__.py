"""Delayed messages on disk: any number of them, due in a second or in two years, held by nodes that keep no state.

A shard's messages lie in buckets of four levels (:mod:`.levels`), each bucket in append-only ledgers of a store
(:mod:`.ledgers`). As time comes near, a bucket is copied into finer ones (:mod:`.cascade`), and the last minute is
merged in memory (:mod:`.near`) and handed to whoever publishes. :class:`engine.delay.shard.DelayShard` is all of it for
the one owner a shard has; who that is, and under which epoch, is decided elsewhere. Nothing here reads a clock.

The design follows "Design and Implementation of a Scalable Delay Message Service Using Apache BookKeeper" (Ctrip).
"""
