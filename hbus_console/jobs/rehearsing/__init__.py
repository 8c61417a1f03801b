"""Plays jobs through a span of time that is over, in seconds: the protocol of slots on a clock of its own.

Nodes, judge, store, policies and work are the real ones, and the rows are ordinary rows. Three things are not:

- **The clock.** Everybody reads one that stands still until :class:`~.rehearsal.Rehearsal` moves it. Redis counts what
  expires by its own clock, which nobody can compress: :class:`~.store.RehearsedStore` has the real scripts set the real
  keys for longer than any play takes, and takes them away when the clock of the play says that they have run out.
- **Processes.** Nodes and workers live in this one and take turns. Who is killed stops between two steps and leaves
  behind what SIGKILL would; ``tests/chaos/test_cron.py`` kills real processes.
- **Work.** It is done in no time when it begins; what it waits for passes afterwards, while it counts as running.

The nodes of the installation leave these jobs alone: see :mod:`~.apart`.
"""
