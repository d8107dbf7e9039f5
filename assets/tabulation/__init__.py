"""Tables made from public data: how a product is declared, described, made and checked, whatever the mechanism."""
