"""Values travel as JSON and come back; anything else is refused with one sentence."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.codec import Check, Count, Text, from_json, to_json


class Row(NamedTuple):
    name: str
    size: Count


@dataclass(frozen=True, slots=True)
class Cat:
    lives: Count
    kind = "cat"


@dataclass(frozen=True, slots=True)
class Dog:
    name: Text
    kind = "dog"


class Own:
    """A class with a form of its own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.text == self.text

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> str:
        return self.text[::-1]

    @classmethod
    def from_json(cls, document: object, path: str) -> "Own":
        if not isinstance(document, str):
            raise FormatError(f"{path}: expected a text")
        return cls(document[::-1])


@dataclass(frozen=True, slots=True)
class House:
    number: int
    price: float
    rows: tuple[Row, ...]
    pet: Cat | Dog
    pair: tuple[int, str]
    own: Own
    words: Annotated[str, Check(str.isalpha, "letters")] = "a"
    colour: Literal["red", "blue"] = "red"
    is_sold: bool = False
    owner: str | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    tags: frozenset[tuple[str, int]] = frozenset()
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.number == 13:
            raise ValueError("a number other than 13")


HOUSE = House(
    7,
    1.5,
    (Row("dt=1/\udcff", 3),),
    Dog("Rex"),
    (4, "four"),
    Own("abc"),
    owner="x",
    notes={"a": [1, None]},
    counts=Counter(a=2),
    tags=frozenset({("b", 1), ("a", 2)}),
    names=["n"],
)


def read(document: Any) -> House:
    found: House = from_json(House, json.loads(json.dumps(document)), "here")
    return found


def test_a_value_travels() -> None:
    found = read(to_json(HOUSE))
    assert found == HOUSE
    assert isinstance(found.counts, Counter)
    assert isinstance(found.rows[0], Row)


def test_equal_sets_give_equal_json() -> None:
    assert to_json(frozenset({("b", 1), ("a", 2)})) == [["a", 2], ["b", 1]]


@pytest.mark.parametrize(
    "change",
    [
        {"number": "7"},
        {"number": True},
        {"number": 7.0},
        {"number": 1 << 63},
        {"number": None},
        {"number": 13},
        {"price": "1"},
        {"price": False},
        {"price": float("inf")},
        {"price": float("nan")},
        {"price": 10**400},
        {"rows": {}},
        {"rows": [["a"]]},
        {"rows": [["a", -1]]},
        {"rows": [{"name": "a", "size": 1}]},
        {"pet": None},
        {"pet": {"lives": 9}},
        {"pet": {"kind": "cow"}},
        {"pet": {"kind": ["cat"], "lives": 9}},
        {"pet": {"kind": "cat", "name": "Rex"}},
        {"pet": {"kind": "dog", "name": "\ud800"}},
        {"pair": [4]},
        {"pair": [4, "four", 4]},
        {"own": 3},
        {"words": "a1"},
        {"colour": "green"},
        {"is_sold": 1},
        {"owner": 3},
        {"notes": []},
        {"counts": {"a": "2"}},
        {"tags": [["a"]]},
        {"names": "n"},
        {"names": [1]},
        {"cellar": 1},
    ],
    ids=str,
)
def test_anything_else_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"^here: expected ") as caught:
        read({**to_json(HOUSE), **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("member", sorted(to_json(HOUSE)))
def test_no_member_may_be_missing(member: str) -> None:
    """Not even one with a default: what is written has all members."""
    document = to_json(HOUSE)
    del document[member]
    with pytest.raises(FormatError, match=rf"^here: expected a value in {member} of the document, found nothing"):
        read(document)


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_a_document_is_an_object(document: object) -> None:
    with pytest.raises(FormatError, match=r"^here: expected an object in the document"):
        read(document)


def test_a_class_alone_needs_its_kind() -> None:
    assert from_json(Cat, {"kind": "cat", "lives": 9}, "here") == Cat(9)
    for document in ({"lives": 9}, {"kind": "dog", "lives": 9}):
        with pytest.raises(FormatError):
            from_json(Cat, document, "here")
