"""The stage `tables` that all mechanisms share: published tables are made and checked here."""
