"""Everything that needs a card, in one command: tests, figures beside their goals, and a table to commit."""
