"""The distance that no run here asks for."""


def calculate_frechet_distance(*_, **__):
    raise NotImplementedError("this is a stand-in; install pytorch-fid to measure distances")
