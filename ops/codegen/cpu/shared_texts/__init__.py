"""Texts of kernels without literals and sizes, which kernels share."""
