"""Import data from files."""
