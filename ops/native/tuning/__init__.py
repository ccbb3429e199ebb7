"""Tuning records and the fingerprints by which they are found."""
