"""Hand-written kernels, one folder per operator family, one file per device."""
