"""The only place that builds engine objects out of settings and database rows: a small file for each engine.

:mod:`~.store` is what every process stands on, :mod:`~.bus` what those add that publish or consume.
"""
