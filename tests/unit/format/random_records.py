"""Random schemas, and random records of them."""

from typing import Any

from hypothesis import strategies as st

from .samples import Schema, record


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, name: str = "r") -> Schema:
    """Any schema: names are made from the place in the tree, so that they differ."""
    leaves = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
    kinds = [*leaves, "fixed", "enum"] + (["record", "array", "map", "union"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "fixed":
            return {"type": "fixed", "name": name, "size": draw(st.integers(1, 4))}
        case "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
        case "record":
            count = draw(st.integers(0, 4))
            return record(name, **{f"f{n}": draw(schemas(depth - 1, f"{name}_{n}")) for n in range(count)})
        case "array":
            return {"type": "array", "items": draw(schemas(depth - 1, f"{name}_i").filter(takes_bytes))}
        case "map":
            return {"type": "map", "values": draw(schemas(depth - 1, f"{name}_v"))}
        case "union":
            other = draw(schemas(depth - 1, f"{name}_u").filter(lambda s: not isinstance(s, list) and s != "null"))
            return draw(st.sampled_from((["null", other], [other, "null"])))
    return kind


def takes_bytes(schema: Schema) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(takes_bytes(field["type"]) for field in schema["fields"])
    return bool(schema != "null")


@st.composite
def values(draw: st.DrawFn, schema: Schema) -> Any:
    if isinstance(schema, list):
        return draw(values(draw(st.sampled_from(schema))))
    if isinstance(schema, dict):
        match schema["type"]:
            case "fixed":
                return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
            case "enum":
                return draw(st.sampled_from(schema["symbols"]))
            case "record":
                return {field["name"]: draw(values(field["type"])) for field in schema["fields"]}
            case "array":
                return draw(st.lists(values(schema["items"]), max_size=4))
            case "map":
                return draw(st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=3))
    return draw(
        {
            "null": st.none(),
            "boolean": st.booleans(),
            "int": st.integers(-(2**31), 2**31 - 1),
            "long": st.integers(-(2**63), 2**63 - 1),
            "float": st.floats(width=32, allow_nan=False),
            "double": st.floats(allow_nan=False),
            "bytes": st.binary(max_size=200),
            "string": st.text(max_size=100),
        }[schema]
    )
