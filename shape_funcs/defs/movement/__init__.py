"""Shape functions: operators that move elements or change shapes: views, gathers, scatters, padding, layouts."""
