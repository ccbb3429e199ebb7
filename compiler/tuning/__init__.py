"""Tuning: trials of implementations, and the records of their times."""
