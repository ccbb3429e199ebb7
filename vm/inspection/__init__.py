"""Explanations of an executable: transfers, storages, kernels."""
