"""What `pytest --traincheck` collects, and how its items pass, fail and are skipped."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

pytest_plugins = ["pytester"]

NET = "golden_invariants/net.jsonl"
ALL = [
    f"{NET}::ran",
    f"{NET}::torch.nn.Linear",
    f"{NET}::torch.optim.Optimizer.zero_grad",
    f"{NET}::torch.optim.SGD.step",
]


def node_ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line and not line.startswith(" ")]


def test_items_are_known_before_anything_runs(project):
    result = project.run("--traincheck", "--collect-only", "-q")
    assert node_ids(result) == [
        "tests/test_other.py::test_other",
        *ALL,
        *(name.replace("net", "gan") for name in ALL),
    ]
    assert project.runs == []


@pytest.mark.parametrize("arguments", [("tests",), (".",), ("tests/test_other.py",), ("./",)])
def test_pipelines_are_collected_once_whatever_paths_are_given(project, arguments):
    result = project.run("--traincheck", "--collect-only", "-q", *arguments)
    assert sorted(name for name in node_ids(result) if "jsonl" in name) == sorted(
        [*ALL, *(name.replace("net", "gan") for name in ALL)]
    )


def test_naming_a_golden_file_selects_its_pipeline_alone(project):
    assert node_ids(project.run("--traincheck", "--collect-only", "-q", NET)) == ALL
    assert node_ids(project.run("--traincheck", "--collect-only", "-q", ALL[2])) == [ALL[2]]


def test_each_pipeline_runs_once(project):
    result = project.run("--traincheck")
    result.assert_outcomes(passed=9)
    assert project.runs == ["net", "gan"]


def test_pipeline_option_selects(project):
    result = project.run("--traincheck", "--traincheck-pipeline=gan")
    result.assert_outcomes(passed=5)
    assert project.runs == ["gan"]


def test_unknown_pipeline_is_refused_with_the_nearest_name(project):
    result = project.run("--traincheck", "--traincheck-pipeline=nett")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*configures no pipeline 'nett'. Did you mean 'net'? Configured: net, gan."])


def test_the_cause_fails_its_consequence_points_to_it_and_the_rest_is_skipped(project, results):
    project.set(results["failed"]("net"))
    result = project.run("--traincheck", NET, "-rsf")
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*= traincheck =*",
            "1. zero_grad was never called",
            "   where:*step 1*net.head*train.py:41",
            "reproduce: traincheck check net",
            "if intended: traincheck refresh net --accept abc",
            "*= FAILURES =*",
            "incident 1, see above under traincheck",
            "follows from incident 1, see above under traincheck",
            "*SKIPPED*golden_invariants/net.jsonl:*its context never came up in this run",
            f"FAILED {ALL[2]} - step 1: zero_grad was never called",
            f"FAILED {ALL[3]} - follows from incident 1: zero_grad was never called",
        ]
    )
    assert "Traceback" not in text
    assert "pytest_traincheck/" not in text


def test_the_commands_stand_in_one_item_whatever_the_number_of_incidents(project, results):
    result = results["failed"]("net")
    (incident,) = result.incidents
    (consequence,) = incident.consequences
    second = replace(incident, id="def", number=2, cause=consequence, consequences=())
    project.set(replace(result, incidents=(replace(incident, consequences=()), second)))
    project.run("--traincheck", NET, "--junitxml=junit.xml").assert_outcomes(passed=1, failed=2, skipped=1)
    failures = ElementTree.parse(project.root / "junit.xml").iter("failure")
    assert [(item.text or "").count("reproduce: traincheck check net") for item in failures] == [1, 0]


def test_a_run_that_failed_fails_ran_with_the_users_output_and_skips_the_rest(project, results):
    project.set(results["crashed"]("net"))
    result = project.run("--traincheck", NET, "-rs")
    result.assert_outcomes(failed=1, skipped=3)
    result.stdout.fnmatch_lines(["*exited with 1*", "do:*Correct it.", "  | boom", "  | last line"])
    result.stdout.fnmatch_lines(["*the pipeline did not run*"])


def test_missing_golden_is_a_failure_that_names_the_remedy(project):
    (project.root / NET).unlink()
    result = project.run("--traincheck")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["FAILED golden_invariants/net.jsonl::ran*traincheck refresh net*"])
    assert project.runs == ["gan"]


def test_missing_golden_can_be_named(project):
    (project.root / NET).unlink()
    result = project.run("--traincheck", NET)
    result.assert_outcomes(failed=1)


def test_store_without_any_golden_can_be_named(project):
    for path in (project.root / "golden_invariants").iterdir():
        path.unlink()
    (project.root / "golden_invariants").rmdir()
    result = project.run("--traincheck", "golden_invariants")
    result.assert_outcomes(failed=2)


def test_truncated_golden_is_a_collection_error_that_names_the_file(project):
    path = project.root / NET
    path.write_bytes(path.read_bytes()[:-20])
    result = project.run("--traincheck")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*ERROR collecting golden_invariants/net.jsonl*", "*net.jsonl, line *cut short*"])
    assert project.runs == []


def test_live_golden_has_kind_items_even_without_a_stored_one(project, results):
    project.set(results["failed"]("net"))
    (project.root / NET).unlink()
    result = project.run("--traincheck", "--traincheck-golden=main", "--traincheck-pipeline=net", "-v", "tests")
    result.stdout.fnmatch_lines([f"{NET}::ran PASSED*", f"{NET}::behaviour FAILED*", f"{NET}::config SKIPPED*"])
    result.stdout.fnmatch_lines([f"FAILED {NET}::behaviour - step 1: zero_grad was never called"])


def test_live_golden_uses_the_subjects_of_the_stored_one(project, results):
    project.set(results["failed"]("net"))
    result = project.run("--traincheck", "--traincheck-golden=main", NET, "-v")
    result.stdout.fnmatch_lines(
        [f"{NET}::behaviour SKIPPED (*no behaviour rule without an item of its own)*", f"{ALL[2]} FAILED*"]
    )


def test_an_incident_whose_subject_has_no_item_still_fails(project, results):
    project.set(results["failed"]("net"))
    path = project.root / NET
    from pytest_traincheck.golden import store

    golden = store.read(path)
    from dataclasses import replace

    store.write(path, replace(golden, invariants=golden.invariants[:1]))
    result = project.run("--traincheck", NET)
    result.stdout.fnmatch_lines([f"FAILED {NET}::ran - step 1: zero_grad was never called"])


def test_keyword_selects_by_subject(project):
    result = project.run("--traincheck", "-k", "zero_grad and net")
    result.assert_outcomes(passed=1, deselected=8)
    assert project.runs == ["net"]


def test_last_failed_runs_only_what_failed(project, results):
    project.set(results["failed"]("net"))
    project.run("--traincheck").assert_outcomes(passed=6, failed=2, skipped=1)
    project.run("--traincheck", "--lf", "-rN").assert_outcomes(failed=2)
    assert project.runs == ["net", "gan", "net"]


def test_xfail_by_the_users_conftest(project, results):
    project.set(results["failed"]("net"))
    with (project.root / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nimport pytest\n"
            "def pytest_collection_modifyitems(items):\n"
            "    for item in items:\n"
            "        if 'zero_grad' in item.nodeid or 'SGD' in item.nodeid:\n"
            "            item.add_marker(pytest.mark.xfail(reason='known', strict=False))\n"
        )
    result = project.run("--traincheck", NET)
    result.assert_outcomes(passed=1, xfailed=2, skipped=1)
    assert result.ret == 0


def test_junit_carries_ids_step_rank_and_sentence(project, results):
    project.set(results["failed"]("net"))
    project.run("--traincheck", NET, "--junitxml=junit.xml", "-o", "junit_family=xunit2")
    cases = {case.get("name"): case for case in ElementTree.parse(project.root / "junit.xml").iter("testcase")}
    assert set(cases) == {"ran", "torch.nn.Linear", "torch.optim.Optimizer.zero_grad", "torch.optim.SGD.step"}
    broken = cases["torch.optim.Optimizer.zero_grad"]
    assert set(broken.attrib) == {"classname", "name", "time"}
    properties = {item.get("name"): item.get("value") for item in broken.iter("property")}
    assert properties["traincheck_step"] == "1"
    assert properties["traincheck_rank"] == "0"
    assert properties["traincheck_sentence"] == "zero_grad was never called"
    assert properties["traincheck_relation"] == "Count"
    assert len(properties["traincheck_invariants"].split()) == 2
    failure = broken.find("failure")
    assert failure.get("message") == "step 1: zero_grad was never called"
    assert "traincheck refresh net" in failure.text
    assert cases["torch.nn.Linear"].find("skipped") is not None


SWEPT = [pytest.mark.slow, pytest.mark.sweep]


@pytest.mark.parametrize(
    "distribution",
    [
        ("-n2", "--dist=loadfile"),
        ("-n2",),
        pytest.param(("-n2", "--dist=worksteal"), marks=SWEPT),
        pytest.param(("-n2", "--dist=loadgroup"), marks=SWEPT),
    ],
    ids=" ".join,
)
def test_under_xdist_everything_arrives_at_the_controller(project, results, distribution):
    pytest.importorskip("xdist")
    project.set(results["failed"]("net"))
    result = project.run_apart(
        "--traincheck", *distribution, "--traincheck-json=out.json", "--traincheck-html=out.html", "--junitxml=j.xml"
    )
    result.assert_outcomes(passed=6, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*= traincheck =*",
            "1. zero_grad was never called",
            "*= FAILURES =*",
            "incident 1, see above under traincheck",
        ]
    )
    result.stdout.fnmatch_lines([f"FAILED {ALL[2]} - step 1: zero_grad was never called"])
    content = json.loads((project.root / "out.json").read_text())
    assert content["verdict"] == "fail"
    assert [item["title"] for item in content["incidents"]] == ["zero_grad was never called"]
    assert (project.root / "out.html").stat().st_size > 0
    names = {item.get("name") for item in ElementTree.parse(project.root / "j.xml").iter("property")}
    assert {"traincheck_invariants", "traincheck_step", "traincheck_rank", "traincheck_sentence"} <= names
    assert sorted(project.runs) == ["gan", "net"]


def test_json_and_report_are_written(project, results):
    project.set(results["failed"]("net"))
    project.run("--traincheck", NET, "--traincheck-json=deep/out.json", "--traincheck-html=out.html")
    assert json.loads((project.root / "deep" / "out.json").read_text())["pipeline"] == "net"
    assert "zero_grad was never called" in (project.root / "out.html").read_text()


def test_report_that_cannot_be_written_fails_the_session(project):
    (project.root / "file").write_text("")
    result = project.run("--traincheck", NET, "--traincheck-json=file/out.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["Cannot write the JSON report*"])


def test_options_work_from_the_ini_file(project, results):
    project.set(results["failed"]("net"))
    ini = project.root / "pyproject.toml"
    ini.write_text(
        ini.read_text().replace(
            "[tool.pytest.ini_options]",
            "[tool.pytest.ini_options]\ntraincheck = true\ntraincheck_pipeline = ['net']\ntraincheck_json = 'ini.json'",
        )
    )
    project.run().assert_outcomes(passed=2, failed=2, skipped=1)
    assert json.loads((project.root / "ini.json").read_text())["verdict"] == "fail"
    # Switched on by the ini file, a path that is typed means that path.
    project.run("tests/test_other.py").assert_outcomes(passed=1)


def test_mistake_in_the_configuration_is_one_clear_error(project):
    ini = project.root / "pyproject.toml"
    ini.write_text(ini.read_text().replace("run = 'python train.py'", "runs = 'python train.py'", 1))
    result = project.run("--traincheck")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR:*`pipelines.net.runs` is not a known key (did you mean `run`?)*"])


def test_nothing_configured_is_an_error_and_not_green(project):
    ini = project.root / "pyproject.toml"
    ini.write_text("[tool.pytest.ini_options]\n")
    result = project.run("--traincheck")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no traincheck configuration*"])


def test_without_the_option_goldens_are_no_tests(project):
    project.run().assert_outcomes(passed=1)


def test_a_mistake_of_ours_is_shown_once_and_runs_nothing_again(project):
    (project.root / "net.result").write_text("{}")
    result = project.run("--traincheck", NET)
    result.assert_outcomes(failed=1, skipped=3)
    assert project.runs == ["net"]


def test_an_empty_ref_is_not_the_configured_one(project):
    result = project.run("--traincheck", "--traincheck-golden=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--traincheck-golden is empty*"])


REPORTER = """

def pytest_traincheck_reporters():
    class Titles:
        name = "titles"
        def render(self, document):
            return "\\n".join(incident["title"] for incident in document["incidents"])
    return [Titles()]
"""


def test_a_report_in_a_format_of_the_conftest(project, results):
    with (project.root / "conftest.py").open("a") as stream:
        stream.write(REPORTER)
    project.set(results["failed"]("net"))
    result = project.run("--traincheck", "--traincheck-write", "titles=out.txt")
    assert result.ret == 1
    assert (project.root / "out.txt").read_text() == "zero_grad was never called"
    result.stdout.fnmatch_lines(["titles: */out.txt"])


def test_a_format_that_nobody_gives_is_wrong_use_before_anything_runs(project):
    result = project.run("--traincheck", "--traincheck-write", "titles=out.txt")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: traincheck_write: no format of report is named 'titles'.*"])
    assert project.runs == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (["--traincheck-report=out.html"], "--traincheck-report is called --traincheck-html now"),
        (["-o", "traincheck_report=out.html"], "traincheck_report is called traincheck_html now"),
    ],
    ids=["option", "ini"],
)
def test_the_name_of_before_works_and_says_so_once(project, how, said):
    result = project.run("--traincheck", *how)
    assert (project.root / "out.html").exists()
    assert result.stderr.str().count("traincheck: note:") == 1
    result.stderr.fnmatch_lines([f"traincheck: note: {said}"])
