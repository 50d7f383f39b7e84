"""Names only."""


class Field: ...


class Dataset: ...


class BucketIterator: ...
