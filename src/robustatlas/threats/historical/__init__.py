"""Published threat models where they differ from the sound ones of :mod:`robustatlas.threats`: one file per family."""
