"""Log lines and CloudWatch metrics, and the middleware that records them for each invocation."""
