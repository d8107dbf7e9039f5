"""The stage `tables` that all mechanisms share: published tables are declared, described, made and checked here."""
