"""argwhere, unique and searchsorted."""
