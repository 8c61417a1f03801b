"""Reading a span of a topic back from the lake, in the order in which it was stored."""
