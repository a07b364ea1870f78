"""Everyday changes of images, with strengths in units that people know: one family a file."""
