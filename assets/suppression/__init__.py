"""The stages of a release by suppression: linked tables without the cells that are small or give small ones away."""
