"""Dense weights as sparse ones: matrices by their blocks, and the passes that rewrite products and convolutions."""
