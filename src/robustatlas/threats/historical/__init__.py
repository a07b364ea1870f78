"""The sets as published, where they differ from the sound ones of :mod:`robustatlas.threats`: one file per family."""
