"""Device placement of operators and values, by a minimum cut."""
