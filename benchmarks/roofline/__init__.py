"""The share of an H100's copy rate that kernels can reach, predicted from their machine code: no GPU is needed."""
