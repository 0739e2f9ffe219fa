"""The tree of keys: what may stand where, read off the models of `keys`."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import Tag
from pydantic.fields import FieldInfo

from sitemap_etl.config.kinds import IsSecret, Keys
from sitemap_etl.config.reader import KeyPath


def known_keys(root: type[Keys], loc: tuple[str | int, ...]) -> dict[str, str]:
    """The keys that the mapping at pydantic's `loc` takes, each with an example of its value."""
    model = _model_at(root, loc)
    return {field.alias or name: _example(field) for name, field in model.model_fields.items()} if model else {}


def secret_paths(root: type[Keys]) -> frozenset[KeyPath]:
    """The key paths of all secrets (none lies below a list or a mapping of free keys)."""
    return frozenset(_secrets(root, ()))


def is_secret(field: FieldInfo) -> bool:
    """Whether the key's value is a secret."""
    return any(isinstance(part, IsSecret) for part in (*field.metadata, *_metadata(field.annotation)))


def _secrets(model: type[Keys], path: KeyPath) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        if is_secret(field):
            yield here
        for below in _members(field.annotation):
            if isinstance(below, type) and issubclass(below, Keys):
                yield from _secrets(below, here)


def is_tag(part: str | int) -> bool:
    """Whether a part of pydantic's `loc` is the tag of a union's member, no key."""
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def aliases(model: type[Keys]) -> list[str]:
    """The keys of a mapping, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(root: type[Keys], loc: tuple[str | int, ...]) -> type[Keys] | None:
    models = forms_at(root, loc[:-1]) if loc and is_tag(loc[-1]) else {"": _annotation_at(root, loc)}
    found = models.get(str(loc[-1])) if loc and is_tag(loc[-1]) else models[""]
    for member in _members(found):
        if isinstance(member, type) and issubclass(member, Keys):
            return member
    return None


def forms_at(root: type[Keys], loc: tuple[str | int, ...]) -> dict[str, Any]:
    """Tag → model (None for a form that is no mapping) of the union at `loc`."""
    forms: dict[str, Any] = {}
    for member in _branches(_annotation_at(root, loc)):
        tag = next((part.tag for part in _metadata(member) if isinstance(part, Tag)), None)
        if tag:
            model = next((m for m in _members(member) if isinstance(m, type) and issubclass(m, Keys)), None)
            forms[tag] = model
    return forms


def _annotation_at(root: type[Keys], loc: tuple[str | int, ...]) -> Any:
    annotation: Any = root
    for part in loc:
        if is_tag(part):
            annotation = next(
                (m for m in _branches(annotation) if any(isinstance(p, Tag) and p.tag == part for p in _metadata(m))),
                None,
            )
            continue
        below: Any = None
        for member in _members(annotation):
            if isinstance(member, type) and issubclass(member, Keys):
                field = next((f for n, f in member.model_fields.items() if (f.alias or n) == part), None)
                if field is not None:
                    below = field.annotation
            elif get_origin(member) is dict:
                below = get_args(member)[1]
            elif get_origin(member) is list:
                below = get_args(member)[0]
        annotation = below
    return annotation


def _metadata(annotation: Any) -> tuple[Any, ...]:
    """What `Annotated` carries, through unions."""
    if get_origin(annotation) is Annotated:
        return (*annotation.__metadata__, *_metadata(annotation.__origin__))
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(part for member in get_args(annotation) for part in _metadata(member))
    return ()


def _branches(annotation: Any) -> Iterator[Any]:
    """The members of a union, each still with what `Annotated` says of it."""
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _branches(member)
    elif get_origin(annotation) is Annotated and not any(isinstance(part, Tag) for part in annotation.__metadata__):
        yield from _branches(annotation.__origin__)
    else:
        yield annotation


def _members(annotation: Any) -> Iterator[Any]:
    """The bare types of an annotation."""
    for branch in _branches(annotation):
        if get_origin(branch) is Annotated:
            yield from _members(branch.__origin__)
        else:
            yield branch


def _example(field: FieldInfo) -> str:
    examples = field.examples or [""]
    example = examples[0]
    return f'"{example}"' if isinstance(example, str) and example.startswith(("$", "*")) else str(example)
