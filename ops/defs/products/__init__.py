"""Matrix products, attention, recurrent layers."""
