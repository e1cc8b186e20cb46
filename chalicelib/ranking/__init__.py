"""Rankings of players by score: exact ranks, entries in order, positions in a list."""
