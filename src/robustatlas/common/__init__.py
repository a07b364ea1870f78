"""What every room may use: words, files, names, small tensor tools."""
