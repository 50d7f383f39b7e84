"""Whatever the configuration file holds, it is used or refused with one message that names the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.config import ConfigError, load

LONG = "9" * 5000
HEXADECIMAL = "0x" + "f" * 6000

VALUES = (
    *('""', '"x"', '" "', '"\\u0000"', '"\\u001b[31m"', "1", "-1", "0", "1.5", "nan", "inf", "-inf", "true"),
    *("[]", "[1]", '["x"]', '[""]', "[[]]", "[{}]", "{}", "{a=1}", "{a={b={}}}", "1979-05-27", "07:32:00"),
    *("1979-05-27T07:32:00Z", '"' + "a" * 5000 + '"', "9223372036854775808", "1e400", HEXADECIMAL, LONG, "9" * 400),
    *(f"[{HEXADECIMAL}]", '["\\u0000"]', '"../x"', '"/abs"', '"~nobody/x"', '"a/b"', '"-x"', '"é"', '"{seed}{"'),
    *("[" * 3000 + "]" * 3000, "{a=" * 2000 + "1" + "}" * 2000),
)
"""TOML values of every type, and of sizes that no file needs."""

KEYS = {
    **{
        key: f"{key} = VALUE\n" for key in ("golden", "store", "python", "golden_python", "candidate_python", "unknown")
    },
    **{key: f"{key} = VALUE\n" for key in ("pipelines", "accept", "policy")},
    "pipelines.p": "[pipelines]\np = VALUE\n",
    "pipelines.p.run": "[pipelines.p]\nrun = VALUE\n",
    **{
        f"pipelines.p.{key}": f'[pipelines.p]\nrun = "true"\n{key} = VALUE\n'
        for key in ("cwd", "seed_arg", "seed_env", "seed_by", "seeds", "vary", "env", "timeout", "steps", "unknown")
    },
    "pipelines.p.env.A": '[pipelines.p]\nrun = "true"\n[pipelines.p.env]\nA = VALUE\n',
    "policy.Count": "[policy]\nCount = VALUE\n",
    **{
        f"accept.{key}": "[[accept]]\n"
        + "".join(
            f"{name} = {'VALUE' if name == key else text}\n"
            for name, text in {"invariant": '"x"', "owner": '"x"', "reason": '"x"', "expires": "2027-01-01"}.items()
        )
        for key in ("invariant", "owner", "reason", "expires")
    },
}


@pytest.mark.fault(
    area="Configuration",
    tried=f"`{{key}}` with {len(VALUES)} values of every type, huge and nested ones among them",
    happens="taken, or one error that names file and key, exit status 2",
)
@pytest.mark.parametrize("key", KEYS)
def test_every_key_with_values_of_every_type(key: str, tmp_path: Path) -> None:
    path = tmp_path / "traincheck.toml"
    said = []
    for value in VALUES:
        path.write_text(KEYS[key].replace("VALUE", value), encoding="utf-8")
        try:
            load(tmp_path)
        except ConfigError as error:
            said.append(str(error))
    assert said
    assert all(text.startswith(str(path)) and len(text) < 20_000 for text in said)


P = b'[pipelines.p]\nrun = "true"\n'
FILES: dict[str, tuple[bytes, str]] = {
    "binary": (bytes(range(256)), "is not UTF-8"),
    "Latin-1": (b'[pipelines.p]\nrun = "caf\xe9"\n', "is not UTF-8"),
    "UTF-16": (P.decode().encode("utf-16"), "is not UTF-8"),
    "a NUL byte": (b"\0" + P, "is not valid TOML"),
    "a table twice": (b"[policy]\n[policy]\n", "is not valid TOML"),
    "a key twice": (b'store = "a"\nstore = "b"\n', "is not valid TOML"),
    "a pipeline twice": (P + P, "two pipelines are called `p` (lines 1 and 3)"),
    "a table that was an array": (b"[[accept]]\n[accept]\n", "is not valid TOML"),
    "half an escaped pair": (b'store = "\\ud800"\n', "is not valid TOML"),
    "a string without an end": (b'store = "a\n', "is not valid TOML"),
    "3,000 arrays in each other": (b"store = " + b"[" * 3000, "is not valid TOML"),
    "2,000 tables in each other": (b"pipelines." + b"a." * 2000 + b"b = 1\n", "nested too deep"),
    "a number of 5,000 digits": (b"x = " + LONG.encode(), "is not valid TOML"),
    "a number beyond 64 bits": (b"[pipelines.p]\nrun = 'x'\nseeds = [9223372036854775808]\n", "beyond 64 bits"),
    "2 MiB": (b"#" * 2**21, "is larger than 1048576 bytes"),
    "a timeout of a thousand years": (P + b"timeout = 31557600000\n", "at most a year"),
    "a pipeline called `../x`": (b'[pipelines."../x"]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline called `a/b`": (b'[pipelines."a/b"]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline called `-x`": (b'[pipelines."-x"]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline called `..`": (b'[pipelines.".."]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline without a name": (b'[pipelines.""]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline called by an emoji": ('[pipelines."\U0001f600"]\nrun = "x"\n'.encode(), "is no usable pipeline name"),
    "a pipeline with a line feed in its name": (b'[pipelines."a\\nb"]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline with a NUL in its name": (b'[pipelines."a\\u0000"]\nrun = "x"\n', "is no usable pipeline name"),
    "a pipeline whose name has 300 letters": (b"[pipelines." + b"a" * 300 + b']\nrun = "x"\n', "is no usable pipeline"),
    "two pipelines that differ in case": (P + b'[pipelines.P]\nrun = "x"\n', "but for upper and lower case"),
    "escape sequences in a key": (b'"\\u001b[2Jx" = 1\n', "is not a known key"),
    "escape sequences in a value": (b'golden = "-\\u001b[2J"\n', "is no git ref"),
}


@pytest.mark.fault(area="Configuration", tried="{name}", happens="one error that names the file, exit status 2")
@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, says = FILES[name]
    (tmp_path / "traincheck.toml").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"traincheck: error: {tmp_path / 'traincheck.toml'}")
    assert says in shown
    assert "Traceback" not in shown
    assert shown.rstrip("\n").isprintable()


@pytest.mark.fault(area="Configuration", tried="a byte order mark", happens="passed over, as editors write it")
def test_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "traincheck.toml").write_bytes(b"\xef\xbb\xbf" + P)
    assert list(load(tmp_path).pipelines) == ["p"]


@pytest.mark.fault(area="Configuration", tried="a pipe in place of the file", happens="one error; it is not opened")
def test_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "traincheck.toml")
    with pytest.raises(ConfigError, match="is not a file"):
        load(tmp_path, tmp_path / "traincheck.toml")
