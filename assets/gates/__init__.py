"""The gates: the promises a release makes, each as a check that stands between it and its publication."""
