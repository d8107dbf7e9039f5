"""The names of the stages that every release has, and of the metadata that commands look for. This module has no
imports, so that a command that only queries a webserver need not wait for the stages themselves."""

CEF = "cef"
"""The stage of a dataset with which all its releases begin."""

PLAN, PREFLIGHT, CHARGE, PUBLICATION = "plan", "preflight", "charge", "publication"
"""The names of the stages that every release has."""

LOSS, CHARGED_BY, CHARGED = "loss", "charged by run", "charged"
"""The metadata of a charge: the loss in words, the run that charged it, and, for public data, the reason for charging
nothing."""

AUTHORIZED_BY_COMMAND = "command that authorizes it"
"""The metadata with the command, in the preflight and in the failure of a charge that lacks only an authorization."""
