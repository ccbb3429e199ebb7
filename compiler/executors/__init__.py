"""Relay's entry points beside ``relay.compile``: ``relay.vm``, ``relay.create_executor``, ``relay.build``."""
