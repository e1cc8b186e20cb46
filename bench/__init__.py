"""Measurements of Hubbub's cost and time, beside the published designs: ``python -m bench``."""
