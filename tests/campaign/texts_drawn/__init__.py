"""How the texts of the campaign are drawn: characters altered (``characters``), trees altered and made (``trees``)."""
