"""Vectors of the native language as LLVM code (see ``ops.native.vectors``)."""
