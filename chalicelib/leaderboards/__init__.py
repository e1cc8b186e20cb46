"""Leaderboards: boards with seasons, the scores of players, and ranks."""
