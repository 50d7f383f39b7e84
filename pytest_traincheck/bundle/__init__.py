"""Bundles: what it takes to check the run of a failed pipeline again, without training, on any machine."""

from pytest_traincheck.bundle.errors import BundleError
from pytest_traincheck.bundle.manifest import MANIFEST, Manifest
from pytest_traincheck.bundle.read import Bundle, open_bundle
from pytest_traincheck.bundle.source import is_bundle
from pytest_traincheck.bundle.write import discard_bundle, write_bundle

__all__ = [
    "MANIFEST",
    "Bundle",
    "BundleError",
    "Manifest",
    "discard_bundle",
    "is_bundle",
    "open_bundle",
    "write_bundle",
]
