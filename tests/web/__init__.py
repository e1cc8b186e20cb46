"""Tests of the page, the admin page and the drop-ins in a real browser."""
