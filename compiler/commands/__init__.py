"""Command line: the commands, their options, inputs and terminal output."""
