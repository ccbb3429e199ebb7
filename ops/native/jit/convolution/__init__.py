"""Machine code for convolutions: rows of panels, taps of planes, tiles of products."""
