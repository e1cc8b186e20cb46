"""Runs all of Hubbub on one machine, with an embedded engine instead of AWS."""
