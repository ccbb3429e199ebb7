"""CUDA devices: the driver, memory, kernels and graphs.  Nothing is imported or opened before a machine needs a GPU."""
