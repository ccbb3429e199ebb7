"""Layer 2: the machine: instruction set, executable, verifier, native loop, memory, devices, profiler."""
