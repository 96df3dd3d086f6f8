"""Reads Stridio's interval files (docs/interval-file-format.md) as the flat files that they stand for.

    import fsspec, h5py, stridio
    h5py.File(fsspec.open("stridio-interval:///scratch/checkpoint").open())
    fsspec.open("stridio-interval::s3://bucket/checkpoint")       # over any other file system

The protocol is known without the import where the package is installed.
"""

import fsspec

from .filesystem import IntervalFileSystem
from .format import IntervalError
from .reader import IntervalFile, Replaced

__all__ = ["IntervalError", "IntervalFile", "IntervalFileSystem", "Replaced"]

# By its name, as entry points do: only then is the protocol known in chains ("stridio-interval::s3://...").
fsspec.register_implementation("stridio-interval", "stridio.IntervalFileSystem", clobber=True)
