"""Tests of the harness: a part whose trials fail in every way there is, and what the harness makes of it."""
