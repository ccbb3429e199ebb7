"""The standard library in Relay text: ``mod.import_from_std(name)``."""
