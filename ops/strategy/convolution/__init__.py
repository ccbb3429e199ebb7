"""Implementations of convolution on the CPU: when each is correct and pays, its workspace, and its blocks."""
