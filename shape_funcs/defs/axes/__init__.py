"""Shape functions: operators along axes: reductions, sorts, searches, Fourier transforms."""
