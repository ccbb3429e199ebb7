"""Convolution of one tap that expands channels, and the depthwise convolution behind it."""
