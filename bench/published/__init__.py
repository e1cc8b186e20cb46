"""Minimal versions of the published designs, written from their descriptions, faults included."""
