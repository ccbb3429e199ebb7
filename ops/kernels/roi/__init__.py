"""Sampling of regions of interest (ROI)."""
