"""A program as the machine runs it: tables for the native loop, fingerprints of programs and of the machine."""
