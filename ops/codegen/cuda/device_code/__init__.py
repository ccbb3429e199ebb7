"""Device functions that the texts of kernels share: the prelude, conversions, looking back, tiles of columns."""
