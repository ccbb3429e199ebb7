"""Passes on products whose weight is a constant: scales and shifts folded into weights, weights in the form of a kernel."""
