"""The compiler from typed Python functions to object code, and the library code that it links."""
