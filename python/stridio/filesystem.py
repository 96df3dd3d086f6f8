"""`stridio-interval`: interval files of any fsspec file system, seen as the flat files that they stand for."""

import contextlib

import fsspec
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.spec import AbstractBufferedFile

from .format import IntervalError
from .reader import IntervalFile


@contextlib.contextmanager
def named(path):
    """Errors say which file it is."""
    try:
        yield
    except IntervalError as error:
        raise type(error)(f"{path}: {error}") from error


def read_only(*_, **__):
    raise NotImplementedError("interval files are written by MPI programs; here they can only be read")


class IntervalFileSystem(ChainedFileSystem):
    """For reading. `stridio-interval:///path` is local, `stridio-interval::URL` lies anywhere."""

    protocol = "stridio-interval"
    root_marker = ""

    def __init__(self, fo=None, target_protocol=None, target_options=None, fs=None, **options):
        super().__init__(**options)
        self.fs = fs or fsspec.filesystem(target_protocol or "file", **(target_options or {}))

    def _below(self, path):
        return self.fs._strip_protocol(self._strip_protocol(path))

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_type="none", cache_options=None, **_):
        if mode != "rb":
            read_only()
        with named(path):
            source = IntervalFile(self.fs.open(self._below(path), "rb"))
        return FlatView(self, path, source, cache_type, cache_options)

    cp_file = _rm = mkdir = makedirs = rmdir = staticmethod(read_only)

    def info(self, path, **_):
        found = self.fs.info(self._below(path))
        return found if found["type"] != "file" else self._flat(found)

    def ls(self, path, detail=True, **_):
        found = self.fs.ls(self._below(path), detail=detail)
        return [self._flat(each) if each["type"] == "file" else each for each in found] if detail else found

    def _flat(self, found):
        """What is known of a file: of other than interval files, no size."""
        try:
            with IntervalFile(self.fs.open(found["name"], "rb")) as source:
                facts = {"size": source.size, "generation": source.generation}
        except OSError:
            facts = {"size": None}
        kept = {name: found[name] for name in ("name", "type", "mtime", "created") if name in found}
        return kept | facts


class FlatView(AbstractBufferedFile):
    """Sees the generation that was the newest when it was opened."""

    def __init__(self, fs, path, source, cache_type, cache_options):
        self.source = source
        super().__init__(fs, path, "rb", cache_type=cache_type, cache_options=cache_options, size=source.size)

    def _fetch_range(self, start, end):
        with named(self.path):
            return self.source.read(start, end)

    def close(self):
        if not self.closed:
            self.source.close()
        super().close()
