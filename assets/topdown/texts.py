"""The texts of TopDown's stages and tables, which are in `texts.md`; those of its certificate are in `statement.md`."""

from assets.release.prose import Prose

TEXTS = Prose(__file__)
