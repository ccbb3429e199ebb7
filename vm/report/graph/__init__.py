"""A program's graph as an HTML page: its layout, and what the page shows."""
