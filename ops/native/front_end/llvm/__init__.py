"""LLVM instructions as text."""
