"""The simulated device: a queue in host memory."""
