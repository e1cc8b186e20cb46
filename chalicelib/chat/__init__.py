"""Chat between two anonymous visitors over WebSockets, with live topics and reports."""
