"""Random words by Threefry."""
