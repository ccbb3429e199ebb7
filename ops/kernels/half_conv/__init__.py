"""Convolution of float16 and bfloat16 on CPUs."""
