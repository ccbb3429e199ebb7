"""Scattering."""
