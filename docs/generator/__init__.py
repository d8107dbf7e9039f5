"""The parts of the site that are generated from the code at each build, so that they are always up to date."""
