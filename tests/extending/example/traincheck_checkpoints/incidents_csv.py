"""A reporter: one line an incident, for a spreadsheet."""

import csv
import io

from pytest_traincheck.api import Reporter

COLUMNS = ("id", "kind", "relation", "subject", "step", "source", "title")


class IncidentsCsv(Reporter):
    """`traincheck check --write csv=incidents.csv`."""

    name = "csv"

    def render(self, document):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([incident[column] for column in COLUMNS] for incident in document["incidents"])
        return text.getvalue()
