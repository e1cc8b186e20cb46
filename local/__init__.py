"""Runs the whole of Hubbub on one machine, against an embedded engine in place of AWS."""
