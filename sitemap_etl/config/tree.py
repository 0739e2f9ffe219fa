"""The tree of keys that a site file can contain, derived from the settings."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator
from functools import cache
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import Tag
from pydantic.fields import FieldInfo

from sitemap_etl.config.reader import KeyPath
from sitemap_etl.settings import Secret, Settings
from sitemap_etl.settings.kinds import SHORT


def known_keys(root: type[Settings], loc: tuple[str | int, ...]) -> dict[str, str]:
    """Return the keys of the mapping at pydantic's `loc`, each with an example of its value."""
    model = _model_at(root, loc)
    return {field.alias or name: _example(field) for name, field in model.model_fields.items()} if model else {}


def mappings(model: type[Settings]) -> Iterator[tuple[str, dict[str, type[Settings]]]]:
    """Yield the keys of a mapping whose values are mappings, each with its forms by the key that marks a form.

    Free keys whose values have several forms are left out, because these are parts of other mappings.
    """
    for name, field in model.model_fields.items():
        found: dict[str, type[Settings]] = {}
        for branch in _branches(field.annotation):
            tag = next((part.tag for part in _metadata(branch) if isinstance(part, Tag)), "")
            for member in _members(branch):
                several = list(_members(get_args(member)[1])) if get_origin(member) is dict else [member]
                below = several[0] if len(several) == 1 else None
                if tag not in SHORT and _is_mapping(below):
                    found[tag.strip("<>")] = below
        if found:
            yield field.alias or name, found


def secret_paths(root: type[Settings]) -> frozenset[KeyPath]:
    """Return the key paths of all secrets, without indexes of lists. `*` is any key of a mapping with free keys."""
    return frozenset(path for path, leaves in _secrets_of(root) if str not in leaves)


def later_paths(root: type[Settings]) -> frozenset[KeyPath]:
    """Return the key paths of secrets and possible secrets, whose variables the stage that uses them reads."""
    return frozenset(path for path, _ in _secrets_of(root))


def lies_at(path: KeyPath, paths: Collection[KeyPath]) -> bool:
    """Return True if a key path is one of these, or is below one."""
    plain = tuple(part for part in path if not isinstance(part, int))
    return any(
        len(one) <= len(plain) and all(mine in ("*", part) for mine, part in zip(one, plain, strict=False))
        for one in paths
    )


def is_secret(field: FieldInfo) -> bool:
    """Return True if the value of a key is a secret."""
    leaves = _leaves(field.annotation)
    return Secret in leaves and str not in leaves


@cache
def _secrets_of(root: type[Settings]) -> list[tuple[KeyPath, set[Any]]]:
    return list(_secrets(root, ()))


def _secrets(model: type[Settings], path: KeyPath) -> Iterator[tuple[KeyPath, set[Any]]]:
    """Yield the key paths that can contain a secret, each with the types of values that the key accepts."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        for below in _members(field.annotation):
            free = get_origin(below) is dict
            if Secret in (leaves := _leaves(below)):
                yield (*here, "*") if free else here, leaves if not free else _leaves(get_args(below)[1])
            for model_ in _members(get_args(below)[1]) if free else [below]:
                if _is_mapping(model_):
                    yield from _secrets(model_, (*here, "*") if free else here)


def _leaves(annotation: Any) -> set[Any]:
    """Return the types of single values in an annotation, including values in lists and mappings."""
    found: set[Any] = set()
    for member in _members(annotation):
        if get_origin(member) in (list, tuple, dict):
            for part in get_args(member):
                found |= _leaves(part) if part is not Ellipsis else set()
        else:
            found.add(member)
    return found


def _is_mapping(member: Any) -> TypeGuard[type[Settings]]:
    return isinstance(member, type) and issubclass(member, Settings)


def is_tag(part: str | int) -> bool:
    """Return True if a part of pydantic's `loc` is the tag of a union's member instead of a key."""
    return isinstance(part, str) and part.startswith("<") and part.endswith(">")


def key_path(loc: tuple[str | int, ...]) -> KeyPath:
    """Return the key path of pydantic's `loc`, without tags and without the key that a short form omits."""
    short = next((number for number, part in enumerate(loc) if part in SHORT), len(loc))
    return tuple(part for part in loc[:short] if part != "[key]" and not is_tag(part))


def aliases(model: type[Settings]) -> list[str]:
    """Return the keys of a mapping as a site file writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(root: type[Settings], loc: tuple[str | int, ...]) -> type[Settings] | None:
    models = forms_at(root, loc[:-1]) if loc and is_tag(loc[-1]) else {"": _annotation_at(root, loc)}
    found = models.get(str(loc[-1])) if loc and is_tag(loc[-1]) else models[""]
    for member in _members(found):
        if _is_mapping(member):
            return member
    return None


def forms_at(root: type[Settings], loc: tuple[str | int, ...]) -> dict[str, type[Settings]]:
    """Return the mappings that the union at `loc` accepts, by their tags."""
    forms: dict[str, type[Settings]] = {}
    for member in _branches(_annotation_at(root, loc)):
        tag = next((part.tag for part in _metadata(member) if isinstance(part, Tag)), None)
        model = next((m for m in _members(member) if _is_mapping(m)), None)
        if tag is not None and tag not in SHORT and model is not None:
            forms[tag] = model
    return forms


def _annotation_at(root: type[Settings], loc: tuple[str | int, ...]) -> Any:
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
            if _is_mapping(member):
                field = next((f for n, f in member.model_fields.items() if (f.alias or n) == part), None)
                if field is not None:
                    below = field.annotation
            elif get_origin(member) is dict:
                below = get_args(member)[1]
            elif get_origin(member) is tuple:
                below = get_args(member)[0]
        annotation = below
    return annotation


def _metadata(annotation: Any) -> tuple[Any, ...]:
    """Return the metadata of `Annotated`, also of the members of unions."""
    if get_origin(annotation) is Annotated:
        return (*annotation.__metadata__, *_metadata(annotation.__origin__))
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(part for member in get_args(annotation) for part in _metadata(member))
    return ()


def _branches(annotation: Any) -> Iterator[Any]:
    """Yield the members of a union, each with its `Annotated`."""
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _branches(member)
    elif get_origin(annotation) is Annotated and not any(isinstance(part, Tag) for part in annotation.__metadata__):
        yield from _branches(annotation.__origin__)
    else:
        yield annotation


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the bare types of an annotation."""
    for branch in _branches(annotation):
        if get_origin(branch) is Annotated:
            yield from _members(branch.__origin__)
        else:
            yield branch


def _example(field: FieldInfo) -> str:
    examples = field.examples or [""]
    example = examples[0]
    return f'"{example}"' if isinstance(example, str) and example.startswith(("$", "*")) else str(example)
