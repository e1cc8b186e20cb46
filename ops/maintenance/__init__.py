"""Check, correct, export and erase the data of a table."""
