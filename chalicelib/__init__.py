"""Hubbub's features, and the engine and table that they share."""
