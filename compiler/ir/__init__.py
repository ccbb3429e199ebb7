"""The IR: expressions, A-normal form, traversal, analyses of modules."""
