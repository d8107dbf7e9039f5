"""The DHC by TopDown, consistent with a redistricting release: its declaration, its stages and its gates."""
