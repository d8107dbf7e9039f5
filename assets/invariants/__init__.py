"""What a release publishes exactly: the two margins that swapping leaves as they are."""
