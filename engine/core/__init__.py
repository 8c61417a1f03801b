"""The words every engine shares: clock, ids, leases, subjects, facts, configuration and errors."""
