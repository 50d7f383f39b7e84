"""What many checks came to, over weeks: the file that CI keeps, and what can be read out of it."""
