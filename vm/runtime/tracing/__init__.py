"""The trace of a run: events as rows of words, recorded by machine code and read by Python."""
