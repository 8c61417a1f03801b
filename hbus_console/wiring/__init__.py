"""What a process shares of the engine, built out of its settings: a small file for each engine, and no feature.

:mod:`~.store` is what every process stands on, :mod:`~.fact_log` what those add that emit facts, :mod:`~.bus` those
that publish or consume.
"""
