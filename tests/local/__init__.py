"""Tests of the local run."""
