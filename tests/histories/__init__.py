"""Faulty histories of the whole app, and what must hold after each: ``python -m tests.histories``."""
