"""Comparison of a program's configurations: result check, statistics, tables, conditions for CI."""
