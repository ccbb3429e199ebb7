"""Sorting, argsort and topk."""
