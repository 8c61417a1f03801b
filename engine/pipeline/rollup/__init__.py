"""Roll-ups: what happened by the minute, the hour and the day, for charts that outlive bus and ledger. Needs numpy."""
