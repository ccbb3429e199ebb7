"""The native loop: state, heap, frames, handlers, shape evaluation, streams, trace."""
