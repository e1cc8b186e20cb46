"""Tests of rankings."""
