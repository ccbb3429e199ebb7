"""Rewrites of calls that users register for operators: ``Legalize``, ``AlterOpLayout``."""
