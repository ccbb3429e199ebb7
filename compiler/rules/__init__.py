"""The rules by which programs are rewritten, and what these see of a program."""
