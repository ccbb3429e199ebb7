"""Evaluation of modules as they are written, before any pass: the meaning of the language."""
