"""Pages about operators, for the documentation and for the command ``relayvm ops``."""
