"""The words every engine shares: clock, ids, leases, facts, configuration and errors."""
