"""From a file of a model to a module: reading, the graph, support for its operators."""
