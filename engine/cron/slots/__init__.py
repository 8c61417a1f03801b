"""From a planned instant to exactly one run: who claims it, who runs it, and what is said of those that nobody ran."""
