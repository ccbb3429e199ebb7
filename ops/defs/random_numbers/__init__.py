"""Random numbers from keys."""
