"""The meeting point of Python and machine code: the tensor descriptor, raw memory, and the compiler to object code."""
