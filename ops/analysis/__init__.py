"""Analyses of a group's kernel: uses, aliases, views, preconditions, cost."""
