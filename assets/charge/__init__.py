"""The charge and the draw: the loss of a release is reserved in the ledger before anything is drawn."""
