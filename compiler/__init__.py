"""Layer 3: text to executable: language, IR, passes, emission, command line."""
