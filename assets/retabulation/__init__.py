"""Tables of a release's published microdata for further places: nothing is drawn and nothing is charged."""
