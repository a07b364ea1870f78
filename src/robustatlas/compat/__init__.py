"""Compatibility with other libraries: their attacks as ours, and classes with their names and signatures."""
