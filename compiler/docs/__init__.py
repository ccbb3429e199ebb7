"""The generated pages of the documentation: ``python -m relayvm.compiler.docs.pages`` writes them."""
