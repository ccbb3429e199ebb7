"""The instruction set, the executable, its file, its verifier and its disassembly."""
