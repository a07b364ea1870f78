"""The table of numbers behind every surface: each number with its interval, its status and what it is a number of."""
