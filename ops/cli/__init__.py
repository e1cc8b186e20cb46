"""The commands of `python -m ops`."""
