"""Source text, spans, error codes and diagnostics."""
