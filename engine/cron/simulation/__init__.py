"""The slot protocol under faults, in a world of models: one seed, one history, replayed exactly.

:func:`engine.cron.simulation.world.play` lets nodes and workers live through a random history; its judge says what must
never be. The models pass the same contract tests as the real store and database.
"""
