"""Measurements of Hubbub beside the published designs."""
