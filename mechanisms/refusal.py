"""What stages refuse to do, for a reason that people can act on.

The message of such an error is complete: one sentence that names the file or release, the field, the rule and the
count. A stack trace would add nothing to it. Everything else that is raised is a fault in the code.
"""


class RefusedError(Exception):
    """Something was refused. The message says what, and why."""
