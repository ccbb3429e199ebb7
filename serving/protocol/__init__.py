"""The Open Inference Protocol: its endpoints, messages and tensors."""
