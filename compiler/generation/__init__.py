"""Decoders in a loop inside the machine: texts token by token."""
