"""Number formats beside float32 and onnxruntime: bytes, few bits, halves (see ``command``)."""
