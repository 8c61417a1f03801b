"""The parts of a consumer, one duty a file: reader, workers, settler, heartbeat, owner, and what they share."""
