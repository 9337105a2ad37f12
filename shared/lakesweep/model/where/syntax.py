"""Texts of conditions as trees of sqlglot, which reads Spark's SQL.

sqlglot is optional, and workers do not have it. It reads more than Spark does, so what Spark does not read is refused
here or in `parser`. Texts in quotes are read here, by Spark's rules for backslashes.

Messages never repeat what stands in quotes: it may be what somebody wants to be forgotten.
"""

from typing import TYPE_CHECKING, Any

from lakesweep.errors import UnsupportedFormatError, UsageError

if TYPE_CHECKING:
    from sqlglot.expressions import Expression
    from sqlglot.tokenizer_core import Token

MAX_LENGTH = 1 << 20
"""The most characters of a condition."""

_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
_ESCAPES |= {"%": "\\%", "_": "\\_"}  # They keep the backslash, for `LIKE`.


def bad_where(message: str) -> UsageError:
    """Build the error for a condition that cannot be followed."""
    return UsageError(f"where: {message}", code="bad_where")


def parse_tree(text: str) -> "Expression":
    """Read a text as one condition.

    Raises:
        UsageError: With code `bad_where`: it is no condition of Spark's SQL.
        UnsupportedFormatError: sqlglot is not there.
    """
    if not text.strip() or len(text) > MAX_LENGTH:
        raise bad_where(f"expected a condition of 1 to {MAX_LENGTH} characters, found {len(text)}")
    try:
        from sqlglot import errors, expressions
        from sqlglot.dialects.dialect import Dialect
    except ImportError as error:
        raise UnsupportedFormatError(
            "a condition on rows needs sqlglot: pip install 'lakesweep[read]'",
            code="where_needs_sqlglot",
        ) from error
    spark = Dialect.get_or_raise("spark")
    try:
        tokens = spark.tokenize(text)
        for token in tokens:
            _check(token, text)
        trees: list[Any] = spark.parser(error_level=errors.ErrorLevel.IMMEDIATE).parse_into(
            expressions.Condition, tokens, None
        )
    # The errors of sqlglot repeat the text, so they are no cause here.
    except (errors.SqlglotError, RecursionError, ValueError) as error:
        raise bad_where(f"expected one condition of Spark's SQL, found something else{_place(error, text)}") from None
    if len(trees) != 1 or trees[0] is None:
        raise bad_where("expected one condition of Spark's SQL, found several")
    tree: Expression = trees[0]
    return tree


def _place(error: Exception, text: str) -> str:
    """Return where sqlglot stopped, if it says so."""
    found = (getattr(error, "errors", None) or [{}])[0]
    line, column = found.get("line"), found.get("col")
    return f" in line {line}, near character {column}" if line and column and text else ""


def _check(token: "Token", text: str) -> None:
    """Refuse words that only sqlglot reads, and give texts in quotes the value that Spark reads."""
    from sqlglot.tokenizer_core import TokenType

    raw = text[token.start : token.end + 1]
    match token.token_type:
        case TokenType.STRING:
            token.text = _unquoted(raw)
        case TokenType.HEX_STRING if raw[:1] not in ("x", "X"):
            raise bad_where("Spark reads no number in base 16; write it in base 10")
        case TokenType.ISNULL | TokenType.NOTNULL:
            raise bad_where(f"Spark does not read {raw.upper()} as an operator; write IS NULL or IS NOT NULL")
        case TokenType.DCOLON if raw == "::":
            raise bad_where(
                "a cast with :: is not supported; write the literal with its type, such as DATE '2024-01-31'"
            )
        case TokenType.SEMICOLON:
            raise bad_where("expected one condition, found a semicolon")


def _unquoted(raw: str) -> str:
    """Return the value of a text in quotes. Source: Spark `ParserUtils.unescapeSQLString`."""
    inner = raw[1:-1]
    characters: list[str] = []
    position = 0
    while position < len(inner):
        character = inner[position]
        position += 1
        if character == "\\":
            escaped = inner[position : position + 1]
            followed = inner[position + 1 : position + 2]
            position += 1
            if escaped not in _ESCAPES or (escaped == "0" and followed.isdigit()):
                raise bad_where("a text has a backslash before another character than one of \\ ' \" n t r b 0 Z % _")
            character = _ESCAPES[escaped]
        characters.append(character)
    return "".join(characters)
