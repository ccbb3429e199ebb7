"""Operators of com.microsoft that exporters and optimisers write: transformers, fused products."""
