#!/usr/bin/env bash
# Runs `traincheck check` in a CI job and leaves its reports in one directory; used by action.yml, and by any job that calls
# it. It needs nothing of the environment but PATH, and reads these variables, all of which may be missing or empty:
#
#   TRAINCHECK_PYTHON     interpreter that has pytest-traincheck (python)
#   TRAINCHECK_PIPELINES  names of pipelines, with spaces between them (all)
#   TRAINCHECK_GOLDEN     `stored`, or a git ref (what the configuration says)
#   TRAINCHECK_STRICT     `true` makes missing coverage a failure (false)
#   TRAINCHECK_REPORTS    directory of the reports (traincheck-reports)
#   TRAINCHECK_HISTORY    file that a line is added to (none)
#
# Exit status: that of the check. On GitHub the outputs `verdict`, `incidents` and `reports` are set.
set -euo pipefail

python="${TRAINCHECK_PYTHON:-python}"
reports="${TRAINCHECK_REPORTS:-traincheck-reports}"
mkdir -p "$reports"

words=(check --json "$reports/traincheck.json" --junit "$reports/traincheck.xml" --html "$reports/traincheck.html")
words+=(--write "sarif=$reports/traincheck.sarif" --artifacts "$reports/artifacts")
if [[ -n "${TRAINCHECK_GOLDEN:-}" ]]; then words+=("--golden=$TRAINCHECK_GOLDEN"); fi
if [[ "${TRAINCHECK_STRICT:-}" == true ]]; then words+=(--strict); fi
if [[ -n "${TRAINCHECK_HISTORY:-}" ]]; then words+=("--history=$TRAINCHECK_HISTORY"); fi
read -r -a pipelines <<<"${TRAINCHECK_PIPELINES:-}"
if [[ "${#pipelines[@]}" -gt 0 ]]; then words+=(-- "${pipelines[@]}"); fi

status=0
"$python" -m pytest_traincheck "${words[@]}" || status=$?

if [[ -n "${GITHUB_OUTPUT:-}" ]]; then
    "$python" - "$reports" >>"$GITHUB_OUTPUT" <<'PYTHON'
import json
import pathlib
import sys

reports = pathlib.Path(sys.argv[1])
try:
    found = json.loads((reports / "traincheck.json").read_text(encoding="utf-8"))
except (OSError, ValueError):
    found = {"verdict": "error", "incidents": []}
print(f"verdict={found['verdict']}\nincidents={len(found['incidents'])}\nreports={reports}")
PYTHON
fi
exit "$status"
