"""Pages of a listing in the usual form: the regular expression and expat find the same, or expat alone decides."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.errors import StorageError
from lakesweep.storage.list_page import ListPage, parse_carefully, parse_page
from lakesweep.storage.regular_page import regular_page

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
CHECKSUMS = "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
OWNER = "<Owner><ID>4c3f</ID><DisplayName>minio</DisplayName></Owner>"
FORMS = {
    "AWS": "<Contents><Key>{key}</Key><LastModified>{time}.000Z</LastModified><ETag>&quot;{etag}&quot;</ETag>"
    + CHECKSUMS
    + "<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>",
    "AWS before checksums": "<Contents><Key>{key}</Key><LastModified>{time}.000Z</LastModified><ETag>&quot;{etag}&quot;"
    "</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>",
    "MinIO": "<Contents><Key>{key}</Key><LastModified>{time}.123Z</LastModified><ETag>&#34;{etag}&#34;</ETag>"
    "<Size>{size}</Size>" + OWNER + "<StorageClass>STANDARD</StorageClass></Contents>",
    "versitygw": "<Contents><LastModified>{time}Z</LastModified>"
    + CHECKSUMS
    + "<ETag>&#34;{etag}&#34;</ETag><Key>{key}</Key><Owner><ID>me</ID></Owner><Size>{size}</Size>"
    "<StorageClass>STANDARD</StorageClass></Contents>",
    "moto": '<Contents><Key>{key}</Key><LastModified>{time}.000Z</LastModified><ETag>"{etag}"</ETag>'
    "<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>",
}
PLAIN_KEYS = ["dt%3D2024-01-01/bucket-0/data-1-0.parquet", "dt%3D2024-01-01/bucket-0/data-2-0.parquet", "a+b/c d", "m/"]


def contents(form: str, keys: Sequence[str]) -> str:
    """Return objects as a server prints them."""
    return "".join(
        FORMS[form].format(key=key, time=f"2024-01-{number % 28 + 1:02}T00:00:00", etag=f"{number:032x}-2", size=number)
        for number, key in enumerate(keys)
    )


def body_of(
    objects: str, *, encoding: str = "url", before: str = "", after: str = "", head: str = DECLARATION
) -> bytes:
    """Return a whole page."""
    encoding_type = f"<EncodingType>{encoding}</EncodingType>" if encoding else ""
    return (
        f"{head}<ListBucketResult{NAMESPACE}><Name>b</Name><IsTruncated>false</IsTruncated>{before}{objects}{after}"
        f"{encoding_type}</ListBucketResult>"
    ).encode()


def either(parse: object, body: bytes) -> ListPage | str:
    """Return the page, or the message of the error."""
    try:
        return parse(body)  # type: ignore[operator, no-any-return]
    except StorageError as error:
        return str(error)


def check(body: bytes) -> ListPage | str:
    """Make sure that both ways lead to the same result."""
    found = either(parse_page, body)
    assert found == either(parse_carefully, body)
    return found


@pytest.mark.parametrize("encoding", ["url", "", "other"])
@pytest.mark.parametrize("form", FORMS)
def test_pages_of_known_servers_need_no_careful_parse(
    form: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would cost three times as much."""
    body = body_of(contents(form, PLAIN_KEYS), encoding=encoding)
    careful = parse_carefully(body)
    monkeypatch.setattr("lakesweep.storage.list_page.parse_carefully", lambda _: pytest.fail("parsed carefully"))
    assert parse_page(body) == careful
    assert len(careful.entries) == len(PLAIN_KEYS)
    assert careful.entries[0][0].startswith("dt=" if encoding == "url" else "dt%3D")


def test_objects_with_and_without_checksums_are_regular() -> None:
    """AWS lists objects from before and after it added checksums on one page."""
    body = body_of(contents("AWS", PLAIN_KEYS) + contents("AWS before checksums", PLAIN_KEYS))
    assert regular_page(body) is not None
    check(body)


ONE = contents("AWS", ["p/a"])
TWO = contents("AWS", ["p/a", "p/b"])
ODD_PAGES = {
    "comment before": body_of(TWO, before="<!-- -->"),
    "all in a comment": body_of(TWO, before="<!--", after="-->"),
    "an equal object, and the rest in a comment": body_of(ONE + "<!--" + TWO + "-->"),
    "an equal object before a comment": body_of(
        TWO, before=ONE.replace("<Contents>", "<Contents >") + "<!--", after="-->"
    ),
    "an equal object, and the rest in an element": body_of(
        TWO, before=ONE.replace("<Contents>", "<Contents >") + "<Other>", after="</Other>"
    ),
    "CDATA": body_of(TWO, before="<![CDATA[", after="]]>"),
    "an equal object, and the rest in CDATA": body_of(ONE + "<![CDATA[" + TWO + "]]>"),
    "an instruction": body_of(TWO, before="<?x ", after="?>"),
    "in an element": body_of(TWO, before="<Other>", after="</Other>"),
    "in an attribute": body_of(TWO, before="<Other a='>", after="'></Other>"),
    "in a closing tag": body_of(TWO, before="<Other></Other", after=">"),
    "after the end": body_of("") + TWO.encode(),
    "in the text of a field": body_of(TWO, before="<Marker>x", after="y</Marker>"),
    "one object elsewhere": body_of(TWO, after="<KeyCount>3</KeyCount>" + contents("AWS", ["p/c"])),
    "text between": body_of(TWO.replace("</Contents><Contents>", "</Contents>x<Contents>")),
    "a line between": body_of(TWO.replace("</Contents><Contents>", "</Contents>\n<Contents>")),
    "an attribute": body_of(TWO.replace("<Contents><Key>p/b", "<Contents a='b'><Key>p/b")),
    "a key twice": body_of(TWO.replace("<Size>1", "<Key>p/z</Key><Size>1")),
    "an unknown element": body_of(TWO.replace("<Size>1", "<Rest>1</Rest><Size>1")),
    "an unknown element in all": body_of(TWO.replace("<Size>", "<Rest>1</Rest><Size>")),
    "an entity": body_of(TWO.replace("p/b", "p/&amp;b")),
    "an unknown entity": body_of(TWO.replace("STANDARD", "&x;")),
    "a declared entity": body_of(TWO.replace("p/b", "p/&x;"), head='<!DOCTYPE ListBucketResult [<!ENTITY x "c">]>'),
    "the end of CDATA": body_of(TWO.replace("p/b", "p/]]>b")),
    "a control character": body_of(TWO.replace("p/b", "p/\x01b")),
    "a return": body_of(TWO.replace("p/b", "p/\rb")),
    "a letter beyond ASCII": body_of(TWO.replace("p/b", "p/\u00e9")),
    "half a letter": body_of(TWO.replace("p/b", "p/%C3")),
    "half a letter in a folder": body_of(TWO.replace("p/b", "p%C3/b")),
    "an escape in a name": body_of(TWO.replace("p/b", "p/%3D+")),
    "a minus": body_of(TWO.replace("<Size>1<", "<Size>-1<")),
    "a huge size": body_of(TWO.replace("<Size>1<", f"<Size>{2**63}<")),
    "the largest size": body_of(TWO.replace("<Size>1<", f"<Size>{2**63 - 1}<")),
    "a time without zone": body_of(TWO.replace("000Z", "000")),
    "no time": body_of(TWO.replace("2024-01-02T", "2024-13-02T")),
    "another encoding": body_of(TWO, head='<?xml version="1.0" encoding="cp037"?>'),
    "an encoding with another percent sign": body_of(
        TWO.replace("p/b", "p%3D/b"), head='<?xml version="1.0" encoding="cp864"?>'
    ),
    "a declaration in the middle": body_of(TWO, before='<?xml version="1.0" encoding="UTF-8"?>'),
    "version 1.1": body_of(TWO, head='<?xml version="1.1" encoding="UTF-8"?>'),
    "cut": body_of(TWO)[:-30],
    "more after it": body_of(TWO) + b"<a/>",
    "no objects": body_of(""),
    "folders": body_of(TWO, before="<CommonPrefixes><Prefix>p%3D/</Prefix></CommonPrefixes>"),
    "an object in a folder": body_of(TWO, before="<CommonPrefixes>", after="<Prefix>x</Prefix></CommonPrefixes>"),
    "quotes": body_of(TWO.replace("&quot;", "&quot;&quot;")),
    "a quote inside": body_of(TWO.replace("0001-2", '00"01-2')),
    "a quote outside": body_of(TWO.replace("0001-2", '0001-2"')),
    "an empty key": body_of(TWO.replace("p/b", "")),
    "two slashes": body_of(TWO.replace("p/b", "p//b/")),
}


@pytest.mark.parametrize("body", ODD_PAGES.values(), ids=ODD_PAGES)
def test_odd_pages_have_the_same_result(body: bytes) -> None:
    check(body)


@pytest.mark.parametrize("name", ["all in a comment", "CDATA", "an instruction"])
def test_hidden_objects_are_no_objects(name: str) -> None:
    page = check(ODD_PAGES[name])
    assert isinstance(page, ListPage)
    assert page.entries == ()


KEYS = st.one_of(st.sampled_from(PLAIN_KEYS), st.text("ab/%3D+ ]>é&;\x01<", min_size=1, max_size=12))
PIECES = sorted(
    {*re.findall(r"<[^>]*>|[^<>]+", body_of(ONE).decode()), "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", *"<>&/"}
)


@st.composite
def pages(draw: st.DrawFn) -> bytes:
    """Return pages with some damage."""
    forms = draw(st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=4))
    only = draw(st.booleans())
    groups = [contents(forms[0] if only else form, draw(st.lists(KEYS, max_size=4))) for form in forms]
    between = draw(st.sampled_from(["", "", "", "\n", "x"]))
    text = body_of(
        between.join(groups),
        encoding=draw(st.sampled_from(["url", ""])),
        before=draw(st.sampled_from(["", "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>"])),
    ).decode()
    pieces = re.findall(r"<[^>]*>|[^<>]+|[<>]", text)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(pieces) - 1))
        match draw(st.sampled_from(["drop", "double", "insert", "swap", "cut"])):
            case "drop":
                del pieces[place : place + draw(st.integers(1, 2))]
            case "double":
                pieces[place:place] = pieces[place : place + draw(st.integers(1, 12))]
            case "insert":
                pieces.insert(place, draw(st.sampled_from(PIECES)))
            case "swap":
                pieces[place] = draw(st.sampled_from(PIECES))
            case "cut":
                del pieces[max(place, 1) :]
        pieces = pieces or [""]
    return "".join(pieces).encode()


@given(pages())
@example(body_of(TWO))
def test_damaged_pages_have_the_same_result(body: bytes) -> None:
    """Whatever is dropped, doubled, put in or cut off: no page gets another result than by expat."""
    check(body)


@given(st.data())
def test_single_bytes_have_the_same_result(data: st.DataObject) -> None:
    body = bytearray(body_of(TWO))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    check(bytes(body))
