"""One pass a file: one public function of the file's name, ``IRModule -> IRModule``.  ``pipeline.py`` has the order."""
