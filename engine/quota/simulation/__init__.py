"""Nodes that share limits, under faults, in a world of models: one seed, one history, replayed exactly.

The nodes, their limiters and the allocator are the real ones; wires, clocks and processes are models.
:func:`engine.quota.simulation.world.play` lets them live through a random history, and a judge who keeps books of his
own says what must never be. Ids alone differ from one replay to the next; nothing depends on them.
"""
