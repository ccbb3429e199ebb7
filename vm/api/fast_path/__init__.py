"""C-API fast path of a call: from Python's objects to the machine's objects and back, as machine code."""
