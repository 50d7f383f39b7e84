"""One module per family of observed calls; each has `install(probe)`."""
