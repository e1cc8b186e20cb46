"""Tests of leaderboards."""
