"""Relay's passes as objects: those of the pipeline, and those that programs run by name."""
