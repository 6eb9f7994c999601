# SPDX-License-Identifier: Apache-2.0
"""The expressions of tasks and launch plans (docs/expressions.md), evaluated in Python."""
import re

TOKEN = re.compile(r"\s*(\d+|[A-Za-z_][\w.]*|&&|\|\||[=!<>]=|[-+*/%^()\[\],<>!])")
LEVELS = [{"||"}, {"&&"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}]
BY_OPERATOR = {
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: a - b * (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
}


def offsets_of(values):
    out = [0]
    for value in values:
        out.append(out[-1] + value)
    return out


def extreme(pick, values):
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = values[0]
    return pick(values) if values else 0


FUNCTIONS = {
    "min": lambda *v: extreme(min, v), "max": lambda *v: extreme(max, v),
    "ceil_div": lambda a, b: -(-a // b), "bit_width": lambda a: int(a).bit_length(),
    "sum": sum, "dot": lambda a, b: sum(x * y for x, y in zip(a, b)), "count": len,
    "unique": lambda v: len(set(v)), "offsets": offsets_of,
}


class Parser:
    """Builds a function of a name's lookup; what is not needed (select, &&, ||) is not evaluated."""

    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text!r}: unexpected {text[at:at + 8]!r}")
            self.tokens.append(match.group(1))
            at = match.end()
        self.text, self.at = text, 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, expected=None):
        token = self.peek()
        if token is None or (expected is not None and token != expected):
            raise ValueError(f"{self.text!r}: expected {expected}, found {token}")
        self.at += 1
        return token

    def parse(self):
        out = self.binary(0)
        if self.peek() is not None:
            raise ValueError(f"{self.text!r}: unexpected {self.peek()!r}")
        return out

    def binary(self, level):
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            operator = self.take()
            left = self.join(operator, left, self.binary(level + 1))
        return left

    @staticmethod
    def join(operator, left, right):
        if operator == "&&":
            return lambda names: int(bool(left(names)) and bool(right(names)))
        if operator == "||":
            return lambda names: int(bool(left(names)) or bool(right(names)))
        apply = BY_OPERATOR[operator]
        return lambda names: apply(left(names), right(names))

    def unary(self):
        if self.peek() == "-":
            self.take()
            value = self.unary()
            return lambda names: -value(names)
        if self.peek() == "!":
            self.take()
            value = self.unary()
            return lambda names: int(not value(names))
        base = self.postfix()
        if self.peek() == "^":
            self.take()
            power = self.unary()
            return lambda names: base(names) ** power(names)
        return base

    def postfix(self):
        value = self.atom()
        while self.peek() == "[":
            self.take()
            index = self.binary(0)
            self.take("]")
            value = (lambda of, at: lambda names: of(names)[at(names)])(value, index)
        return value

    def atom(self):
        token = self.take()
        if token == "(":
            value = self.binary(0)
            self.take(")")
            return value
        if token.isdigit():
            number = int(token)
            return lambda names: number
        if self.peek() != "(":
            return lambda names: names(token)
        self.take("(")
        arguments = [self.binary(0)]
        while self.peek() == ",":
            self.take()
            arguments.append(self.binary(0))
        self.take(")")
        if token == "select":
            condition, yes, no = arguments
            return lambda names: yes(names) if condition(names) else no(names)
        if token == "sizeof":
            name = self.tokens[self.at - 2]
            return lambda names: names("sizeof " + name)
        function = FUNCTIONS[token]
        return lambda names: function(*(argument(names) for argument in arguments))


PARSED = {}


def evaluate(expression, names):
    """`names` gives the value of a name; "sizeof T" asks for the bytes of a type family."""
    if isinstance(expression, (int, float)):
        return expression
    if expression not in PARSED:
        PARSED[expression] = Parser(expression).parse()
    return PARSED[expression](names)
