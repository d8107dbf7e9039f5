"""The stages of the table builder. Every hypercube is a release with its own draw, charge and publication."""
