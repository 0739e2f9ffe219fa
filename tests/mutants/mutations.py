"""The small mistakes that can be made in a module: each changes one node of its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
"""What a comparison becomes: a border on its other side, or the opposite."""

_SHORT = (ast.Compare, ast.BinOp, ast.UnaryOp, ast.Call, ast.keyword, ast.Subscript, ast.Assign, ast.AugAssign)
_SHORT += (ast.AnnAssign, ast.Return, ast.Slice)


@dataclass(frozen=True)
class Place:
    """Location of a node: the function or class around it, and the lines of its statement, some of which tests run."""

    within: str
    lines: range


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the bytes of the source from `begin` to `end` become `text`.

    `file`, `place.within`, `was` and `now` identify it even if other code of the file moves.
    """

    file: str
    place: Place
    was: str
    now: str
    begin: int
    end: int
    text: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.file, self.place.within, self.was, self.now

    def applied(self, source: str) -> str:
        """Return the source with this change."""
        data = source.encode()
        return (data[: self.begin] + self.text.encode() + data[self.end :]).decode()


def mutants(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines.

    Texts for people (docstrings, messages and f-strings), code for type checkers only, and assertions (`assert`,
    and `strict` of zip) are not changed. Named numbers and durations (`TRIES: Final = 5`) are not changed either:
    most are sizes of batches and numbers of tries, and a test could only repeat them (PIT excludes constants by
    default, Google's tool capacities). The code that handles such a limit is changed.
    """
    return list(_Finder(file, source).found(ast.parse(source), Place("", range(0))))


class _Finder:
    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.starts = [0]  # of the lines, in bytes
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def found(self, node: ast.AST, place: Place, parent: ast.AST | None = None) -> Iterator[Mutant]:
        if _is_left_alone(node):
            return
        if isinstance(node, ast.stmt):
            first = node.body[0].lineno if isinstance(node, ast.If | ast.While | ast.For | ast.With | ast.Try) else 0
            last = max(node.lineno, first - 1) if first else node.end_lineno or node.lineno
            place = Place(place.within, range(node.lineno, last + 1))
        if isinstance(node, ast.stmt | ast.expr):
            yield from self._of(node, place, parent)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = Place(f"{place.within}.{node.name}".lstrip("."), range(0))
            if isinstance(node, ast.FunctionDef):
                for default in [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]:
                    yield from self.found(default, Place(inside.within, place.lines))
            for child in node.body:
                yield from self.found(child, inside)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from self.found(node.value, place, node)
        else:
            for each in ast.iter_child_nodes(node):
                yield from self.found(each, place, node)

    def _of(self, node: ast.stmt | ast.expr, place: Place, parent: ast.AST | None) -> Iterator[Mutant]:
        match node:
            case ast.Compare():
                for at, operator in enumerate(node.ops):
                    ops = [*node.ops[:at], COMPARED[type(operator)](), *node.ops[at + 1 :]]
                    yield self._expression(node, ast.Compare(node.left, ops, node.comparators), place)
            case ast.BoolOp():
                other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
                yield self._expression(node, ast.BoolOp(other, node.values), place)
            case ast.UnaryOp(op=ast.Not()):
                yield self._expression(node, node.operand, place)
            case ast.Constant(value=bool() as value):
                yield self._constant(node, not value, place, parent)
            case ast.Constant(value=int() as value):
                yield self._constant(node, value + 1, place, parent)
                yield self._constant(node, value - 1, place, parent)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                yield self._expression(node, ast.IfExp(test, orelse, body), place)
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield self._change(value, f"return {ast.unparse(value)}", "return None", "None", place)
            case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom() as value):
                yield self._change(node, ast.unparse(value), "pass", "pass", place)
            case ast.If(test=test):
                was = f"if {ast.unparse(test)}:"
                other_way = f"not ({ast.unparse(test)})"
                yield self._change(test, was, f"if {other_way}:", other_way, place)
                yield self._change(test, was, "if False:", "False", place)
            case ast.While(test=test):
                yield self._change(test, f"while {ast.unparse(test)}:", "while False:", "False", place)
            case _:
                return

    def _expression(self, node: ast.expr, other: ast.expr, place: Place) -> Mutant:
        return self._change(node, ast.unparse(node), ast.unparse(other), f"({ast.unparse(other)})", place)

    def _constant(self, node: ast.Constant, other: int, place: Place, parent: ast.AST | None) -> Mutant:
        """Change a constant. It is shown within the expression around it, if that is short."""
        value, shown = node.value, parent if isinstance(parent, _SHORT) else node
        was = ast.unparse(shown)
        node.value = other
        now, node.value = ast.unparse(shown), value
        return self._change(node, was, now, f"({other})", place)

    def _change(self, node: ast.stmt | ast.expr, was: str, now: str, text: str, place: Place) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        return Mutant(self.file, place, was, now, begin, end, text)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.keyword(arg="strict"):
            return True
        case ast.AnnAssign(value=ast.expr() as value):
            return _is_final(node) and _is_number(value)
    return False


def _is_final(node: ast.AnnAssign) -> bool:
    return ast.unparse(node.annotation).startswith("Final")


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression consists of numbers only, or is a duration made of them."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.Call(func=ast.Name(id="timedelta"), keywords=keywords):
            return all(_is_number(each.value) for each in keywords)
    return False
