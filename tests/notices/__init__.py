"""Tests of the notices for the team."""
