"""Everything that can happen to a queue, at once: see __main__."""
