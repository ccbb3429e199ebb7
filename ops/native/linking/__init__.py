"""Object code into this process: reading of objects, images in memory, symbols."""
