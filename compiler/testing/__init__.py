"""Small networks, built as Relay's ``testing`` builds them: no weight has an annotation."""
