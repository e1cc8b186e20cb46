"""Sums over items, added up from the table's stream, exactly once."""
