"""A stand-in for pytorch-fid of our own: imported by a repository, called in no run here."""
