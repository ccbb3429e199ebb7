"""Code generation: IR with explicit allocation to an executable."""
