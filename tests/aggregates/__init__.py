"""Tests of aggregates."""
