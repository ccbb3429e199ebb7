"""The kernel cache and the tuning records: keys, files, checksums, ownership."""
