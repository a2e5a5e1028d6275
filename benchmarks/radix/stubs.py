"""Stand-ins for packages that an engine imports and its index never uses: its wheel then imports without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Whether these can be imported decides which hardware an engine believes to have.
_ABSENT = {
    "amdsmi",
    "habana_frameworks",
    "libtpu",
    "pynvml",
    "torch_npu",
    "torch_xla",
    "tpu_info",
    "tpu_inference",
}


class _Anything(type):
    """A class that has every attribute, and is any decorator."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)

    def __call__(cls, *args: Any, **options: Any) -> Any:
        is_decorator = len(args) == 1 and callable(args[0]) and not options
        return args[0] if is_decorator else _anything("made")


def _anything(name: str) -> _Anything:
    return _Anything(name, (), {"__class_getitem__": classmethod(lambda cls, item: cls)})


class _Stub(ModuleType):
    __path__: Sequence[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)


class Stubs(MetaPathFinder, Loader):
    """Finds what nobody else has found, where one of these engines asks for it."""

    def __init__(self, engines: set[str]) -> None:
        self._engines = engines

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in _ABSENT or top in self._engines or self._asker() not in self._engines:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass

    def _asker(self) -> str:
        """The package in which the import stands."""
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back  # type: ignore[assignment]
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame else ""


def install(engine: str) -> None:
    """Let `engine` be imported although packages are missing."""
    # Transformers must not take a stand-in for the real thing: it looks at what there is once, now.
    import transformers.image_processing_utils  # noqa: PLC0415
    import transformers.image_utils  # noqa: F401, PLC0415

    sys.meta_path.append(Stubs({engine}))
