"""Tests of the table, its retries, and the computed capacity."""
