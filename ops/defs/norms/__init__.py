"""Normalisation and losses."""
