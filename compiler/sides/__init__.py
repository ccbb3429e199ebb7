"""On which side of the copies work is done: a minimum cut."""
