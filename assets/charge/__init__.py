"""The charge: what a release costs, reserved in the ledger before anything is drawn."""
