"""Objects of the machine: their memory, and the search for reference cycles."""
