"""Rehearses a deployment on an engine on this machine."""
