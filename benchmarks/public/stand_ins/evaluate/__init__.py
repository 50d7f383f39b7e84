"""A stand-in for `evaluate`, whose metrics are programs from the network: accuracy, whatever metric is asked for."""


class _Accuracy:
    def __init__(self):
        self.right, self.seen = 0, 0

    def add_batch(self, *, predictions, references):
        for predicted, reference in zip(predictions, references, strict=True):
            self.right += int(predicted) == int(reference)
            self.seen += 1

    def compute(self, predictions=(), references=()):
        self.add_batch(predictions=predictions, references=references)
        accuracy = self.right / max(1, self.seen)
        self.__init__()
        return {"accuracy": accuracy}


def load(*_, **__):
    """The one metric."""
    return _Accuracy()
