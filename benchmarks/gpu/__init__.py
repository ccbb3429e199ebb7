"""Everything that needs a GPU, in one command: tests, figures beside their goals, and a table to commit."""
