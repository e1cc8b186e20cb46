"""dynamo."""
