"""Tables of a release's published microdata for further places, without a draw or a charge."""
