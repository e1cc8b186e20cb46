"""The HTTP interface: routing, validation, authentication, JSON, cursors, static files and OpenAPI."""
