"""Operates Hubbub: provisions its resources, deploys it and looks after its aggregates."""
