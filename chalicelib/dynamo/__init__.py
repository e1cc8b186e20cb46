"""The table: reads and writes with retries, item types, and consumed capacity."""
