"""Patterns of expressions: matching, rewriting, and composite functions of what matches."""
