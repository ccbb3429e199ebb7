"""The Python API of the language: node constructors and operator functions under Relay's names."""
