"""Other libraries: their attacks as ours, ours as theirs, and classes with the names of theirs."""
