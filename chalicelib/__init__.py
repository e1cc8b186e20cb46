"""Hubbub: one package per feature, and the core that the features share."""
