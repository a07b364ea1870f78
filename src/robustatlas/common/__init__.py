"""Tools that every room may use: words, files, names, tensors."""
