"""The engine that stands in for DynamoDB on one machine."""


class EngineUnavailable(Exception):
    """An engine cannot run here. The message names what is missing or in the way."""
