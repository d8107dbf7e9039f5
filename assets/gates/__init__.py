"""The gates of a release: checks that must all pass before it is published."""
