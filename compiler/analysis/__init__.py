"""``relay.analysis``, visitors and substitutions for programs of users."""
