"""Systems that a training can be told to, one file each; each is found by lying here."""
