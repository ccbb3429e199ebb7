"""From an exported program to a module: the signature, the nodes, support for operators."""
