"""Refusals for a reason that people can act on. Every other exception is a fault in the code."""


class RefusedError(Exception):
    """A refusal, whose one sentence names the file or release, the field, the rule and the count. No trace is shown."""
