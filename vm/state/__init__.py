"""The machine's state and a GPU's as layouts in memory, growable arrays, the queue of an asynchronous device."""
