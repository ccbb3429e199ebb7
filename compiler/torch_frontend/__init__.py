"""Import of programs that torch exports: ``relay.frontend.from_torch``."""
