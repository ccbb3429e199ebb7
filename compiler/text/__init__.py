"""The text format: from text to module, and back."""
