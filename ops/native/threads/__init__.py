"""The thread team and the partition of a kernel's work."""
