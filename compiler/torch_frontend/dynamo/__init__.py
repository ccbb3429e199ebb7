"""The backend ``relayvm`` of ``torch.compile``."""
