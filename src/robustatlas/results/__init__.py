"""The views of a run: what a search found, of one run or of many."""
