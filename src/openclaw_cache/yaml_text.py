"""YAML as we read it: safe, without twins, and with faults that never repeat what stands there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from openclaw_cache.errors import ConfigError

_FIELD_NAME = re.compile(r"[a-z_]{1,32}")
# PyYAML's constructors raise these, undressed, for a value that its tag or shape cannot be: `2024-13-45`, `!!bool x`.
_UNDRESSED = (ValueError, LookupError, AttributeError)

if TYPE_CHECKING:
    _SafeLoader = yaml.SafeLoader
else:  # the one over libyaml: four times as fast, and there wherever PyYAML came as a wheel
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str, source: str) -> Any:
    """The value that `text` holds; JSON is YAML too. Cost grows with the text: about 0.6 s a MB.

    Raises:
        ConfigError: begins with `source` and says what is wrong and where, without quoting the text: what stands
            in a broken line may be a key.
    """
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader that also refuses twins
    except yaml.YAMLError as e:
        raise ConfigError(f"{source} is not valid YAML: {_fault(e)}") from None
    except RecursionError:
        raise ConfigError(f"{source} is not valid YAML: it is nested too deeply") from None
    except _UNDRESSED:
        raise ConfigError(f"{source} is not valid YAML: it has a value that is not of its own type") from None


class _UniqueKeyLoader(_SafeLoader):
    """A SafeLoader that refuses a key given twice: PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen and key != "<<":
                shown = repr(key) if _FIELD_NAME.fullmatch(key) else "of this line"
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {shown} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _fault(error: yaml.YAMLError) -> str:
    """What is wrong and where. Not the library's own text: it quotes the line, and perhaps a key in it."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "it has characters that YAML does not allow"
    problem = re.sub(r"\b(alias|anchor|tag|handle|character) .*", r"\1", error.problem or "syntax error")
    return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {problem}"
