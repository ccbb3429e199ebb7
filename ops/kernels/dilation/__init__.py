"""Grey-scale dilation."""
