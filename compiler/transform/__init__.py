"""``relay.transform``: passes that users apply to modules, and passes that users write."""
