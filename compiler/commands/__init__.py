"""The command line: its commands, and what is special to people at a terminal."""
