"""A shard's protocol under faults, in a world of models: one seed, one history, replayed exactly.

:func:`engine.delay.simulation.world.play` lets owners of a shard live through a random history, each killed, cut off or
held up between any two calls to the store; the judge says what must never be. The model of the store passes the same
contract tests as the real ones.
"""
