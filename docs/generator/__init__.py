"""The parts of the site that follow from the code, made when it is built, so that none can be out of date."""
