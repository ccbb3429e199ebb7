"""Passes, one per file: a public function of the file's name, ``IRModule -> IRModule``.  ``pipeline.py`` has the order."""
