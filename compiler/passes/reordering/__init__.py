"""Passes that compute operators in another order, or leave out what an order needs."""
