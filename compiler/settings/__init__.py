"""Settings of a compilation: configuration keys, targets."""
