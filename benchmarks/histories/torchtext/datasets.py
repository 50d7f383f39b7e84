"""Names only."""


class TranslationDataset: ...
