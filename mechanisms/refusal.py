"""Refusals for a reason that people can act on. Everything else that is raised is a fault in the code."""


class RefusedError(Exception):
    """A refusal, whose one sentence names the file or release, the field, the rule and the count. No trace is shown."""
