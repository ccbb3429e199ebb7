"""A program as a graph: kernels, copies and calls as nodes, values as edges, in scopes that can be folded."""
