"""Inputs of a run: from files, from the command line, or random."""
