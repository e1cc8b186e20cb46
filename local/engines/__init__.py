"""The engines that stand in for DynamoDB, and where they can for SQS, on one machine."""


class EngineUnavailable(Exception):
    """An engine cannot run here. The message names what is missing or in the way."""
