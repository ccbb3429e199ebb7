"""Configurations of a program side by side: whether they agree, and what is demanded of them."""
