"""Devices: the simulated device and CUDA."""
