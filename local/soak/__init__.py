"""The local run under load, with kills of its processes, and an audit of everything that it accepted."""
