"""Loop nests over scalar expressions, independent of the device."""
