"""What a number of messages a day asks of stores, processes and databases: from measured costs, by arithmetic and by a
simulated day. The arithmetic is in :mod:`plan`, the day in :mod:`day`, the measuring in :mod:`measure`."""
