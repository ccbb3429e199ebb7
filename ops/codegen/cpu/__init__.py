"""Kernel source for the CPU."""
