"""Compiler of native functions, from Python's syntax tree to LLVM IR.  Imported only when something is compiled."""
