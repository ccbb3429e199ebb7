"""Convolutions of bytes: sums in int32 of products of bytes without a sign and bytes with a sign."""
