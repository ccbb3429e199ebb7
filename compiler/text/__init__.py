"""The text format: parser and printer."""
