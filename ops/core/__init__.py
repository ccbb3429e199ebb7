"""Operator declarations: types, scalar expressions, groups, type relations, attributes."""
