"""The stages of a release by coarsening: records in places and combinations that are large enough, without noise."""
