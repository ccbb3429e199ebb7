"""CUDA graphs of regions of launches: entries held back, the table of regions, captures and changes of nodes."""
