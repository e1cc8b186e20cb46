"""Challenges: treasure hunts with secret valid paths, and the players that find them."""
