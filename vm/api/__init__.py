"""The Python API of the virtual machine: calls, arguments, tensors, errors."""
