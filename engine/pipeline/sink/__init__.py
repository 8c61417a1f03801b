"""``df.write`` into a topic: the format ``hbus``, the other way round."""
