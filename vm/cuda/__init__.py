"""CUDA devices: the driver by address, memory, kernels and graphs.  Nothing is imported or opened until a machine asks."""
