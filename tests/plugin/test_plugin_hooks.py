"""Hooks of this package in a `conftest.py` and in plugins: what they give is learned and checked like our own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys

import pytest
from saving_script import SCRIPT

from pytest_traincheck import hookspecs, plugins
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import registry

pytest_plugins = ["pytester"]

CONFTEST = """
from dataclasses import dataclass

import numpy as np
from pytest_traincheck.api import Claim, Examples, Finding, Hypothesis


@dataclass(frozen=True)
class SavedAfter(Claim):
    after: str


class SavedLast:
    name = "SavedLast"
    claims = (SavedAfter,)

    def layer(self, claim):
        return 1

    def hypotheses(self, run):
        yield Hypothesis(self.name, "torch.save", SavedAfter("the last step"))

    def examples(self, claim, run):
        parts = []
        for position, process in enumerate(run.processes):
            last = process.steps[-1].row
            saves = [row for row in process.rows_of_type("io").tolist() if process.api[row] == "torch.save"]
            parts.append(Examples(
                np.array([any(row > last for row in saves)]), np.array([position]), np.array([last]), np.array([0])
            ))
        return Examples.concatenate(parts)

    def sentence(self, claim, subject, when):
        return f"`{subject}` is called after {claim.after} of a run{when}."

    def finding(self, invariant, run, examples, broken):
        return Finding("nothing is saved after the last step", "saved", "not saved")


def pytest_traincheck_relations():
    return [SavedLast()]
"""


CONFIG = """
[tool.traincheck.pipelines.net]
run = "python train.py"
seed_env = "SEED"
seeds = [0]
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """No line of a report is wrapped."""
    monkeypatch.setenv("COLUMNS", "200")


def configured(pytester):
    (pytester.path / "train.py").write_text(SCRIPT)
    (pytester.path / "pyproject.toml").write_text(CONFIG)
    return pytester.path


@pytest.fixture(scope="module")
def golden_with_conftest(tmp_path_factory, plugin):
    """The directory of a golden that was learned with the relation of the conftest."""
    root = tmp_path_factory.mktemp("learned")
    for name, text in {"train.py": SCRIPT, "pyproject.toml": CONFIG, "conftest.py": CONFTEST}.items():
        (root / name).write_text(text)
    words = [sys.executable, "-m", "pytest", *plugin, "--traincheck-refresh"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "golden_invariants"


def with_golden(pytester, golden):
    """The project of the golden, with a copy of it."""
    root = configured(pytester)
    pytester.makeconftest(CONFTEST)
    shutil.copytree(golden, root / "golden_invariants")
    return root


def of_conftest(root):
    """Rules of the stored golden that rest on the relation of the conftest."""
    golden = store.read(store.golden_path(root / "golden_invariants", "net"))
    return [item for item in golden.invariants if item.relation == "SavedLast"]


@pytest.mark.slow
def test_a_relation_of_a_conftest_is_learned_and_breaks(pytester, plugin, golden_with_conftest):
    root = with_golden(pytester, golden_with_conftest)
    run = pytester.runpytest_subprocess
    (rule,) = of_conftest(root)
    assert rule.sentence == "`torch.save` is called after the last step of a run."
    assert run(*plugin, "--traincheck").ret == 0
    saving = SCRIPT.splitlines()[-1]
    (root / "train.py").write_text(SCRIPT.replace(saving, "").replace("for step", f"{saving}\nfor step"))
    broken = run(*plugin, "--traincheck")
    assert broken.ret == 1
    # `traincheck check` and `refresh` read no conftest: these commands would not show it, and would lose the rule.
    accept = "pytest --traincheck-refresh --traincheck-pipeline net --traincheck-accept"
    broken.stdout.fnmatch_lines(
        [
            "*nothing is saved after the last step*",
            "reproduce: pytest --traincheck --traincheck-pipeline net",
            f"if intended: {accept} *",
        ]
    )
    line = next(line for line in broken.outlines if line.startswith("if intended: "))
    run(*plugin, *shlex.split(line.removeprefix("if intended: pytest "))).assert_outcomes(passed=1)
    assert not of_conftest(root)


@pytest.mark.sweep
@pytest.mark.slow
def test_a_refresh_says_which_rules_it_leaves_out(pytester, plugin, golden_with_conftest):
    root = with_golden(pytester, golden_with_conftest)
    (root / "conftest.py").unlink()
    check = pytester.runpytest_subprocess(*plugin, "--traincheck", "-rs")
    check.stdout.fnmatch_lines(["*not observable*no relation named 'SavedLast' is installed*"])
    refresh = pytester.run(sys.executable, "-m", "pytest_traincheck", "refresh", "net")
    refresh.stdout.fnmatch_lines(["*1 rule of the relation SavedLast is left out*"])
    assert not of_conftest(root)


FIXTURE_TEST = """
import runpy, os

def test_net(traincheck):
    for seed in (0, 1):
        os.environ["SEED"] = str(seed)
        with traincheck.pipeline("net", seed=seed):
            runpy.run_path("train.py")
"""


@pytest.mark.sweep
@pytest.mark.slow
def test_the_fixture_uses_a_relation_of_a_conftest_without_any_option(pytester, plugin):
    (pytester.path / "train.py").write_text(SCRIPT)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_net=FIXTURE_TEST)
    run = pytester.runpytest_subprocess
    run(*plugin, "--traincheck-refresh").assert_outcomes(passed=1)
    run(*plugin).assert_outcomes(passed=1)
    (pytester.path / "train.py").write_text(SCRIPT.replace("torch.save(", "print("))
    broken = run(*plugin)
    broken.assert_outcomes(failed=1)
    broken.stdout.fnmatch_lines(["*nothing is saved after the last step*"])


def test_without_the_option_a_hook_in_a_conftest_is_not_even_called(pytester, plugin):
    pytester.makeconftest("def pytest_traincheck_relations():\n    raise AssertionError\n")
    pytester.makepyfile("def test_one(): pass")
    pytester.runpytest_inprocess(*plugin).assert_outcomes(passed=1)


def test_a_misspelt_hook_is_pytests_own_error(pytester, plugin):
    pytester.makeconftest("def pytest_traincheck_relation():\n    return []\n")
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_subprocess(*plugin)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*unknown hook 'pytest_traincheck_relation'*"])


def _with_claims(claims: str) -> str:
    """A hook that gives a relation which has everything, with these types of claims."""
    return (
        "from dataclasses import dataclass\n"
        "    from pytest_traincheck.api import Claim, Relation\n"
        "    @dataclass(frozen=True)\n    class Odd(Claim):\n        names: set\n"
        "    class Inherits(Odd): pass\n"
        "    class Whole(Relation):\n        name = 'Whole'\n"
        f"        claims = {claims}\n"
        "        hypotheses = examples = sentence = finding = lambda self, *given: []\n"
        "    return [Whole()]"
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return 1 / 0", "*conftest.py: pytest_traincheck_relations raised ZeroDivisionError: division by zero.*"),
        ("return None", "*conftest.py: pytest_traincheck_relations gave NoneType, which is no list.*"),
        ("yield 1", "*conftest.py: pytest_traincheck_relations gave generator, which is no list.*"),
        ("return [object]", "*conftest.py: <class 'object'> is a class and is no relation.*"),
        ("return [3]", "*conftest.py: 3 lacks `name` and is no relation.*"),
        (
            "from pytest_traincheck.relations import Relation\n"
            "    class Half(Relation):\n        name = 'Half'\n        def hypotheses(self, run): return []\n"
            "    return [Half()]",
            "*conftest.py: *Half* lacks `examples` and is no relation.*",
        ),
        (_with_claims("()"), "*conftest.py: *Whole* lacks `claims` and is no relation.*"),
        (
            _with_claims("(dict,)"),
            "*<class 'dict'> among its `claims`, which is no frozen dataclass derived from `Claim`*",
        ),
        (_with_claims("(Inherits,)"), "*Inherits'> among its `claims`, which is no frozen dataclass*"),
        (
            _with_claims("(Odd,)"),
            "*has a claim whose types cannot be stored (Odd: a claim cannot hold a <class 'set'>)*",
        ),
        (
            "from pytest_traincheck.relations.count import Count; return [Count()]",
            "*conftest.py: two relations are named 'Count'.*",
        ),
    ],
    ids=[
        "raises",
        "none",
        "generator",
        "class",
        "number",
        "half",
        "no claims",
        "no dataclass",
        "inherits",
        "odd",
        "taken",
    ],
)
def test_a_hook_that_cannot_be_used_is_one_clear_error(pytester, plugin, body, complaint):
    configured(pytester)
    pytester.makeconftest(f"def pytest_traincheck_relations():\n    {body}\n")
    result = pytester.runpytest_inprocess(*plugin, "--traincheck")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])


def test_a_hook_below_the_root_is_heard_once_pytest_has_come_across_it(pytester, plugin):
    root = configured(pytester)
    store.write(root / "golden_invariants" / "net.jsonl", Golden("net", "0" * 16, ()))
    (root / "tests" / "deep").mkdir(parents=True)
    (root / "tests" / "deep" / "conftest.py").write_text(CONFTEST)
    (root / "tests" / "deep" / "test_one.py").write_text(
        "from pytest_traincheck.relations import relations\ndef test_one():\n    assert 'SavedLast' in relations()\n"
    )
    result = pytester.runpytest_inprocess(*plugin, "--traincheck", "tests")
    assert result.parseoutcomes()["passed"] == 1


def test_a_session_leaves_nothing_behind(pytester, plugin):
    configured(pytester)
    pytester.makeconftest(CONFTEST)
    before = registry.revision()
    pytester.runpytest_inprocess(*plugin, "--traincheck", "--collect-only")
    assert "SavedLast" not in registry.relations()
    assert registry.revision() == before


def test_code_of_a_conftest_is_part_of_what_a_cached_golden_depends_on(pytester, monkeypatch):
    monkeypatch.syspath_prepend(pytester.path)
    monkeypatch.delitem(sys.modules, "conftest", raising=False)
    path = pytester.makeconftest(CONFTEST)
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    without = registry.revision()
    with plugins.in_session(manager):
        manager.import_plugin("conftest")
        first = registry.revision()
        path.write_text(CONFTEST + "# changed\n")
        second = registry.revision()
    assert len({tuple(without), tuple(first), tuple(second)}) == 3


OBSERVING = """
from pytest_traincheck.api import Observation

def pytest_traincheck_observations():
    return [Observation("losses:weighted", arguments=("weight",))]
"""

WEIGHTED = """
def weighted(loss, weight=0.5):
    return loss * weight
"""


@pytest.mark.slow
def test_a_function_that_a_conftest_names_is_observed_in_a_test_and_in_a_command(pytester, plugin):
    root = configured(pytester)
    (root / "losses.py").write_text(WEIGHTED)
    script = (
        SCRIPT.replace("import os, torch", "import os, losses, torch")
        .replace("torch.nn.functional.cross_entropy(", "losses.weighted(torch.nn.functional.cross_entropy(")
        .replace("(16,)))", "(16,))))")
    )
    (root / "train.py").write_text(script)
    pytester.makeconftest(OBSERVING)
    pytester.makepyfile(
        test_net=FIXTURE_TEST.replace('"net"', '"inside"').replace("def test", "import losses\n\ndef test")
    )
    run = pytester.runpytest_subprocess
    refreshed = run(*plugin, "--traincheck-refresh")
    refreshed.assert_outcomes(passed=2)
    for name in ("net", "inside"):
        golden = store.read(store.golden_path(root / "golden_invariants", name))
        assert set(golden.extensions) == {"losses.weighted"}
        assert {item.relation for item in golden.invariants if item.subject == "losses.weighted"} == {"APIArg", "Count"}
    (root / "losses.py").write_text(WEIGHTED.replace("0.5", "0.25"))
    broken = run(*plugin, "--traincheck")
    assert broken.ret == 1
    broken.stdout.fnmatch_lines(["*losses.weighted*weight*0.25*"])
    # The standalone commands read no conftest.
    broken.stdout.fnmatch_lines(["reproduce: pytest --traincheck --traincheck-pipeline net"])
