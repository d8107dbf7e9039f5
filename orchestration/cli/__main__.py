"""`python -m orchestration.cli`: the command `stirred`."""

from orchestration.cli import main

main()
