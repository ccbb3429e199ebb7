"""Which storages a function needs: what lies in what, what is used again, what one block of memory holds."""
