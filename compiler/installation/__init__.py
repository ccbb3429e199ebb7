"""`relayvm cache install`: code that is the same for every program, and the usual programs whose kernels are stored with it."""
