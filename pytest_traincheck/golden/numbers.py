"""The numbers of a golden, which belong to one platform, as a file of arrays beside the rules.

`NAME.PLATFORM.npz` is a zip archive of six arrays in numpy's format, without pickle: `index` holds JSON as bytes
(`uint8`): the format, the platform, the spec that was run, and for each rule its id and the names that it has numbers
for. `low` and `high` (`float64`) hold the bounds of all names of all rules, one after the other. A rule finds its
numbers by its id, so numbers of a rule that is gone are never used. `texts`, `calls` and `sketches` (`uint8`) hold the
recording of one run, see `recording.py`; they are empty where nothing was recorded.
"""

from __future__ import annotations

import glob
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.recording import Recording

SUFFIX = ".npz"

NUMBERS_FORMAT = 2
"""Version of the file; a reader refuses what is newer."""

NUMBERS_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest file, and of its largest content, that is read."""

Floats = npt.NDArray[np.float64]

_ENTRIES = ("index.npy", "low.npy", "high.npy", "texts.npy", "calls.npy", "sketches.npy")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?s:..)\{'descr': '(?P<dtype>[^']{1,8})', 'fortran_order': False, "
    rb"'shape': \((?P<count>[0-9]{1,12}),\), \} *\n"
)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Bounds of named numbers: `names[i]` lies between `low[i]` and `high[i]`, both of shape (n,), finite, inclusive.

    What the names mean is up to the relation whose rule the numbers belong to.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        if not self.low.shape == self.high.shape == (len(self.names),):
            raise ValueError(f"{len(self.names)} names, bounds of shapes {self.low.shape} and {self.high.shape}")
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all() and (self.low <= self.high).all()):
            raise ValueError("a bound is not finite, or a lower bound is above its upper one")
        if len(self.position) != len(self.names):
            raise ValueError("a name stands twice")

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Where each name stands."""
        return {name: number for number, name in enumerate(self.names)}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Numbers)
            and self.names == other.names
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
        )


@dataclass(frozen=True)
class NumbersFile:
    """What one file holds: numbers by the id of their rule, the recording of one run, the platform they are from, and
    the spec that was run.
    """

    platform: str
    spec: str
    numbers: Mapping[str, Numbers]
    recording: Recording | None = None


def numbers_path(golden: Path, platform: str) -> Path:
    """Where the numbers of a platform lie beside a golden file, e.g. `mnist.linux-x86_64-cpu.npz`.

    A dot cannot stem from the platform, so that no two pipelines share a file.
    """
    safe = re.sub(r"[^A-Za-z0-9_]+", "-", platform).strip("-")[:100]
    return golden.with_name(f"{golden.name.removesuffix('.jsonl')}.{safe or 'unknown'}{SUFFIX}")


def has_numbers(golden: Path) -> bool:
    """Whether numbers of any platform lie beside a golden file."""
    return any(golden.parent.glob(f"{glob.escape(golden.name.removesuffix('.jsonl'))}.*{SUFFIX}"))


def encode_numbers(content: NumbersFile) -> bytes:
    """The whole file; the same content gives the same bytes."""
    rules = sorted(content.numbers.items())
    index = {
        "format": NUMBERS_FORMAT,
        "platform": content.platform,
        "spec": content.spec,
        "rules": [{"id": identity, "names": list(numbers.names)} for identity, numbers in rules],
    }
    text = json.dumps(index, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    arrays: list[npt.NDArray[Any]] = [
        np.frombuffer(text, dtype="|u1"),
        _joined(numbers.low for _, numbers in rules),
        _joined(numbers.high for _, numbers in rules),
        *(np.frombuffer(part, dtype="|u1") for part in _recorded(content.recording)),
    ]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in zip(_ENTRIES, arrays, strict=True):
            data = io.BytesIO()
            np.lib.format.write_array(data, array, version=(1, 0), allow_pickle=False)
            # Neither the time nor the system it was written on enters the bytes.
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data.getvalue(), zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


def _recorded(recording: Recording | None) -> tuple[bytes, bytes, bytes]:
    return recording.to_arrays() if recording is not None else (b"", b"", b"")


def _joined(parts: Iterable[Floats]) -> Floats:
    return np.concatenate([np.empty(0), *parts]).astype("<f8")


def read_numbers(path: Path) -> NumbersFile | None:
    """What a file holds, as untrusted data; `None` where there is no file.

    Raises `GoldenError` that names the file and what is wrong with it for anything that `encode_numbers` would not
    have written.
    """
    try:
        # A pipe or a device would block or never end, so look before opening.
        if not path.is_file():
            if path.exists():
                raise _broken(path, "it is not a file")
            return None
        with path.open("rb") as stream:
            data = stream.read(NUMBERS_LIMIT + 1)
    except OSError as error:
        raise GoldenError(
            f"Cannot read the numbers {path}: {error.strerror or error}. Check its permissions."
        ) from error
    if len(data) > NUMBERS_LIMIT:
        raise _broken(path, f"it is larger than {NUMBERS_LIMIT} bytes")
    return decode_numbers(data, path)


def decode_numbers(data: bytes, path: Path) -> NumbersFile:
    """The content that the bytes of a file describe; `path` is for messages. Raises `GoldenError`."""
    parts = _entries(data, path)
    index = _index(_array(parts[0], "|u1", path).tobytes(), path)
    low, high = (_array(part, "<f8", path).astype(np.float64) for part in parts[1:3])
    total = sum(len(names) for names in index.rules.values())
    if len(low) != total or len(high) != total:
        raise _broken(path, f"it has {len(low)} lower and {len(high)} upper bounds for {total} names")
    numbers: dict[str, Numbers] = {}
    start = 0
    for identity, names in index.rules.items():
        stop = start + len(names)
        try:
            numbers[identity] = Numbers(names, low[start:stop], high[start:stop])
        except ValueError as error:
            raise _broken(path, f"rule {identity}: {error}") from error
        start = stop
    texts, calls, sketches = (_array(part, "|u1", path).tobytes() for part in parts[3:])
    try:
        recording = Recording.from_arrays(texts, calls, sketches)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"its recording is not one: {error}") from error
    return NumbersFile(index.platform, index.spec, numbers, recording)


def _entries(data: bytes, path: Path) -> list[bytes]:
    """The content of the entries. What the archive says of its sizes is looked at before it is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if tuple(entry.filename for entry in entries) != _ENTRIES:
                raise _broken(path, f"its entries are not {', '.join(_ENTRIES)}")
            if any(entry.compress_type != zipfile.ZIP_DEFLATED or entry.flag_bits & 1 for entry in entries):
                raise _broken(path, "an entry is encrypted or packed in another way")
            if sum(entry.file_size for entry in entries) > NUMBERS_LIMIT:
                raise _broken(path, f"its content is larger than {NUMBERS_LIMIT} bytes")
            return [archive.read(entry) for entry in entries]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
        raise _broken(path, f"it is not an archive of arrays ({error})") from error


def _array(data: bytes, dtype: str, path: Path) -> npt.NDArray[Any]:
    """The one-dimensional array of an entry. Its header is matched, not evaluated as numpy would."""
    header = _HEADER.match(data)
    if header is None:
        raise _broken(path, "an entry does not hold a one-dimensional array")
    if header["dtype"] != dtype.encode():
        raise _broken(path, f"an array is of type {header['dtype']!r} and not {dtype}")
    kind = np.dtype(dtype)
    if len(data) - header.end() != int(header["count"]) * kind.itemsize:
        raise _broken(path, "an array does not have the length it announces")
    return np.frombuffer(data, dtype=kind, offset=header.end())


@dataclass(frozen=True)
class _Index:
    platform: str
    spec: str
    rules: Mapping[str, tuple[str, ...]]


def _index(text: bytes, path: Path) -> _Index:
    try:
        content = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise _broken(path, "its index is not valid JSON") from error
    if not isinstance(content, dict):
        raise _broken(path, "its index is not an object")
    version = content.get("format")
    if type(version) is int and version > NUMBERS_FORMAT:
        raise GoldenError(
            f"{path} has format {version}, and this pytest-traincheck reads up to {NUMBERS_FORMAT}. "
            "Upgrade pytest-traincheck, or learn the file again with `traincheck refresh`."
        )
    if type(version) is not int or version != NUMBERS_FORMAT:
        raise _broken(path, "its index has no known format")
    if set(content) != {"format", "platform", "spec", "rules"} or not isinstance(content["rules"], list):
        raise _broken(path, "its index has other keys than this format")
    if not isinstance(content["platform"], str) or not isinstance(content["spec"], str):
        raise _broken(path, "its index does not name a platform and a spec")
    rules: dict[str, tuple[str, ...]] = {}
    for item in content["rules"]:
        if (
            not isinstance(item, dict)
            or set(item) != {"id", "names"}
            or not isinstance(item["id"], str)
            or not isinstance(item["names"], list)
            or not all(isinstance(name, str) for name in item["names"])
            or item["id"] in rules
        ):
            raise _broken(path, "its index does not list the names of each rule once")
        rules[item["id"]] = tuple(item["names"])
    return _Index(content["platform"], content["spec"], rules)


def _broken(path: Path, what: str) -> GoldenError:
    return GoldenError(
        f"The numbers {path} cannot be used: {what}. "
        "Restore the file from version control, or learn it again with `traincheck refresh`."
    )
