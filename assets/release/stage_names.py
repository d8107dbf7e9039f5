"""The names of the stages that every release has, and of what commands look for in them. Nothing is imported here, so
that a command that only asks a webserver need not wait for the stages themselves."""

CEF = "cef"
"""The stage of a dataset that all its releases begin with."""

PLAN, PREFLIGHT, CHARGE, PUBLICATION = "plan", "preflight", "charge", "publication"
"""The names of the stages that every release has."""

LOSS, CHARGED_BY, CHARGED = "loss", "charged by run", "charged"
"""The metadata of a charge with the loss in words, with the run that charged it, and why nothing is charged, if it is
public data."""

AUTHORIZED_BY_COMMAND = "command that authorizes it"
"""The metadata with the command, of the preflight and of the failure of a charge that only wants an authorization."""
